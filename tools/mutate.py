#!/usr/bin/env python3
# Mutation testing: how many small wrong changes of a C source do the tests notice?
#
#   tools/mutate.py --work DIR --build COMMAND --sources FILE.c... --tests PROGRAM... [options] -- COMPILER FLAGS
#
# 1. Each source is rewritten so that it holds all its mutants, each behind a number (mutate_rewrite.py), and
#    COMMAND builds the test programs once, with $MUTANT_CC as the compiler that takes the rewritten files.
# 2. Each test program runs once without a mutant: that gives its time, and which mutants it comes by in a
#    way that changes a value. Programs that fail or skip all are left out, and named.
# 3. For each mutant, the programs that can notice it run, those first that are quick and have noticed most
#    in this file. It is killed by a failed test, a crash, a wrong exit status, or when the time is over (three
#    times the usual processor time and 0.5 s). What no test comes by, or differs in no test, has survived at once.
#
# DIR/programs.txt says what each program takes and how many mutants it can notice.
# Verdicts go to DIR/results.ndjson as they come, and a later call goes on from there: what was killed stays killed
# while its source is the same, what survived meets only the programs whose test has changed. DIR/survivors.txt
# is written anew each time. Survivors that are explained are listed in the --explained file, in the same form,
# one a line in a fenced block; a line there whose mutant is gone, or is killed now, is stale, and an error.
#
# Exit: 0, 1 when a line is stale or --least is not reached, 2 when something else went wrong.
import argparse
import concurrent.futures
import hashlib
import json
import mmap
import os
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import mutate_rewrite

FAILED = re.compile(rb"\[  FAILED  \]")
# One line of a list of survivors: FILE:LINE FUNCTION #NTH OPERATOR (NEW): OLD
LINE = re.compile(r"(\S+\.c):(\d+) (\w+) #(\d+) ([a-z]+) \((.*?)\): (.*)")
# As in tools/run_tests.sh.
NOT_FOR_TESTS = {"WORSEGPU_SOCKET", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CMOCKA_MESSAGE_OUTPUT", "CMOCKA_TEST_FILTER",
                 "CMOCKA_SKIP_FILTER", "CMOCKA_XML_FILE"}
MEMORY_BYTES = 8 << 30  # a mutant may ask for ever more


def digest(*paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()[:16]


def line_of(result):
    return f"{result['file']}:{result['line']} {result['function']} #{result['nth']} {result['operator']} " \
           f"({result['new']}): {result['old']}"


def key_of(result):
    return tuple(result[name] for name in ("file", "function", "operator", "old", "new", "nth"))


class Program:
    """A test program: what it takes, what it can notice."""

    def __init__(self, path, common):
        self.path, self.name = path, os.path.basename(path)
        source = "tests/unit/" + self.name + ".c"
        self.hash = common + (digest(source) if os.path.exists(source) else digest(path))
        self.seconds = 0.0  # of a processor
        self.marks = b""


class Runner:
    def __init__(self, work):
        self.rooms = tempfile.mkdtemp(prefix="wm.")
        self.lock = threading.Lock()
        self.local = threading.local()
        self.outside = {name: value for name, value in os.environ.items() if name not in NOT_FOR_TESTS}

    def close(self):
        shutil.rmtree(self.rooms, ignore_errors=True)

    def room(self):
        """A temporary folder of this worker's own, empty."""
        room = getattr(self.local, "room", None)
        if room is None:
            room = self.local.room = tempfile.mkdtemp(prefix="t", dir=self.rooms)
        for left in os.listdir(room):
            path = os.path.join(room, left)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.unlink(path)
        return room

    def run(self, program, environment, seconds, stop_at_failure=True):
        """How it ended ("" when well), its processor seconds, and the end of what it printed."""
        room = self.room()
        environment = {**self.outside, **environment, "TMPDIR": room, "XDG_RUNTIME_DIR": room}
        child = subprocess.Popen([program.path], env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
                                 stdout=subprocess.DEVNULL if stop_at_failure else subprocess.PIPE,
                                 stderr=subprocess.PIPE if stop_at_failure else subprocess.STDOUT)
        pipe = child.stderr if stop_at_failure else child.stdout
        output, deadline, how = b"", time.monotonic() + seconds, ""
        while not how:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                how = "time"
                break
            some = os.read(pipe.fileno(), 65536)
            if not some:
                break
            output = output[-65536:] + some
            if stop_at_failure and FAILED.search(output):
                how = "failed"
        pipe.close()
        ended = 0
        while not how and not ended:
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            if not ended and time.monotonic() > deadline:
                how = "time"
            elif not ended:
                time.sleep(0.002)
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if not ended:
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status = os.waitstatus_to_exitcode(status)
        if not how and status != 0:
            how = "time" if status == -signal.SIGPROF else f"signal {-status}" if status < 0 else f"exit {status}"
        return how, usage.ru_utime + usage.ru_stime, output


class Mutation:
    def __init__(self, options):
        self.options = options
        self.work = options.work
        self.results_path = os.path.join(self.work, "results.ndjson")
        self.mutants = []
        self.hashes = {}
        self.programs = []
        self.runner = Runner(self.work)
        self.tried = {}  # (file, program name): [runs, kills]
        self.lock = threading.Lock()

    # ---------------------------------------------------------------------- 1: rewrite and build

    def rewrite(self):
        headers = [os.path.join(folder, name) for folder in {os.path.dirname(path) or "." for path in self.options.sources}
                   for name in os.listdir(folder) if name.endswith(".h")]
        common = digest(mutate_rewrite.__file__, *sorted(headers)) + " ".join(self.options.flags)
        first = 1
        for path in self.options.sources:
            self.hashes[path] = digest(path)
            mutants, text = self.rewritten(path, first, common)
            self.mutants += mutants
            self.write(os.path.join(self.work, path), text)
            # Numbers with room between files, so that a change in one leaves the others' texts alone.
            first += len(mutants)
            first += -first % 1024 + 1
        self.room = first
        self.write(os.path.join(self.work, "cc"), self.compiler_script())
        os.chmod(os.path.join(self.work, "cc"), 0o755)

    def rewritten(self, path, first, common):
        """The mutants of a file from number `first` on, and its new text; from an earlier call where nothing has changed."""
        kept_path = os.path.join(self.work, path + ".json")
        this = f"{self.hashes[path]} {first} {common}"
        try:
            with open(kept_path) as file:
                kept = json.load(file)
            if kept["of"] == this:
                return [mutate_rewrite.Mutant.made(one) for one in kept["mutants"]], kept["text"]
        except (OSError, ValueError):
            pass
        file = mutate_rewrite.read(path, self.options.clang, self.options.flags)
        mutants = file.mutants(first)
        text = file.rewritten()
        self.write(kept_path, json.dumps({"of": this, "mutants": [vars(one) for one in mutants], "text": text}))
        return mutants, text

    @staticmethod
    def write(path, text):
        """Only where it is new, so that make builds only that."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            with open(path) as file:
                if file.read() == text:
                    return
        with open(path, "w") as file:
            file.write(text)

    def compiler_script(self):
        tools = os.path.dirname(os.path.abspath(__file__))
        return f"""#!/bin/sh
# Compiles the rewritten file in place of the one that is named.
source=
for word; do
    case $word in *.c) [ -f "{self.work}/$word" ] && source=$word ;; esac
done
[ -n "$source" ] || exec {self.options.compiler} "$@"
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    [ "$word" != "$source" ] || word={self.work}/$source
    set -- "$@" "$word"
    left=$((left - 1))
done
exec {self.options.compiler} "$@" -w -Wno-error -fwrapv -include {tools}/mutate.h -iquote "$(dirname "$source")"
"""

    def build(self):
        environment = {**os.environ, "MUTANT_CC": os.path.join(self.work, "cc")}
        if subprocess.run(self.options.build, shell=True, env=environment).returncode != 0:
            sys.exit("mutate: the build with all mutants failed")

    # ---------------------------------------------------------------------- 2: what each program can notice

    def measure(self):
        support = sorted(os.path.join("tests/support", name) for name in os.listdir("tests/support")) \
            if os.path.isdir("tests/support") else []
        common = digest(*support) if support else ""
        programs = [Program(path, common) for path in self.options.tests]
        done = 0

        os.makedirs(os.path.join(self.work, "marks"), exist_ok=True)

        def one(program):
            nonlocal done
            # Kept for the next call: a program that was not built anew does the same again.
            kept_path = os.path.join(self.work, "marks", program.name + ".json")
            marks_path = os.path.join(self.work, "marks", program.name)
            this = f"{digest(program.path)} {self.room}"
            try:
                with open(kept_path) as file:
                    kept = json.load(file)
            except (OSError, ValueError):
                kept = {}
            if kept.get("program") != this:
                with open(marks_path, "wb") as file:
                    file.truncate(self.room)
                how, _, output = self.runner.run(program, {"MUTANT_MARKS": marks_path}, 600, False)
                ran = re.search(rb"(\d+) test\(s\) run", output)
                skipped = re.search(rb"\[  SKIPPED \] (\d+) test", output)
                if not how and ran and skipped and ran.group(1) == skipped.group(1):
                    how = "skipped"
                kept = {"program": this, "how": how}
            if "seconds" not in kept:
                # Marking takes much longer than what is done with a mutant later on.
                kept["seconds"] = self.runner.run(program, {"MUTANT": "0"}, 600)[1]
                with open(kept_path, "w") as file:
                    json.dump(kept, file)
            with open(marks_path, "rb") as file:
                program.marks = file.read()
            program.seconds = kept["seconds"]
            with self.lock:
                done += 1
                self.progress(f"{done} of {len(programs)} test programs measured")
            return program, kept["how"]

        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            outcomes = list(pool.map(one, programs))
        self.progress(None)
        for program, how in outcomes:
            if how:
                print(f"mutate: left out, since it does not pass by itself: {program.name} ({how})", flush=True)
            elif any(program.marks) and self.options.longest and program.seconds > self.options.longest:
                print(f"mutate: left out, since it takes {program.seconds:.1f} s: {program.name}", flush=True)
            elif any(program.marks):
                self.programs.append(program)
        with open(os.path.join(self.work, "programs.txt"), "w") as file:
            for program in sorted(self.programs, key=lambda p: p.seconds):
                file.write(f"{program.seconds:8.3f} {sum(1 for mark in program.marks if mark & 2):6} {program.name}\n")
        if not self.programs:
            sys.exit("mutate: no test program comes by any mutant")

    # ---------------------------------------------------------------------- 3: each mutant

    def noticing(self, mutant):
        """The programs that can notice it, the promising ones first; and whether any comes by."""
        differs = [p for p in self.programs if p.marks[mutant.number] & 2]
        reached = any(p.marks[mutant.number] for p in self.programs)

        def cost(program):
            runs, kills = self.tried.get((mutant.file, program.name), (0, 0))
            return (program.seconds + 0.01) * (runs + 2) / (kills + 1)
        return sorted(differs, key=cost), reached

    def judge(self, mutant, known):
        programs, reached = self.noticing(mutant)
        result = {"verdict": "survived" if programs else "same" if reached else "unreached", "number": mutant.number,
                  "line": mutant.line, "source": self.hashes[mutant.file],
                  **dict(zip(("file", "function", "operator", "old", "new", "nth"), mutant.key()))}
        passed = dict(known.get("passed", {})) if known and known["source"] == result["source"] else {}
        for program in programs:
            if passed.get(program.name) == program.hash:
                continue
            milliseconds = int(3000 * program.seconds + 500)
            how, _, _ = self.runner.run(program, {"MUTANT": str(mutant.number), "MUTANT_MILLISECONDS": str(milliseconds)},
                                     20 * program.seconds + 20)
            with self.lock:
                tried = self.tried.setdefault((mutant.file, program.name), [0, 0])
                tried[0] += 1
                tried[1] += 1 if how else 0
            if how:
                result.update(verdict="killed", by=program.name, how=how)
                return result
            passed[program.name] = program.hash
        result["passed"] = passed
        return result

    def known_results(self):
        known = {}
        if os.path.exists(self.results_path) and not self.options.fresh:
            with open(self.results_path) as file:
                for line in file:
                    try:
                        result = json.loads(line)
                    except ValueError:
                        continue  # the last line of a call that was ended
                    known[key_of(result)] = result
        return known

    def chosen(self):
        """All mutants, or a sample with as large a share of each file."""
        mutants = [m for m in self.mutants if not self.options.only or m.file in self.options.only]
        if not self.options.sample or self.options.sample >= len(mutants):
            return mutants
        draw = random.Random(self.options.seed)
        chosen, owed = [], 0.0
        for path in sorted({m.file for m in mutants}):
            here = [m for m in mutants if m.file == path]
            owed += len(here) * self.options.sample / len(mutants)
            count = min(len(here), round(owed))
            owed -= count
            chosen += draw.sample(here, count)
        return chosen

    def run(self):
        known = self.known_results()
        mutants = self.chosen()
        order = list(mutants)
        # In a random order, so that what is judged when the time is over is a fair sample; first what was once judged.
        random.Random(self.options.seed).shuffle(order)
        order.sort(key=lambda mutant: mutant.key() not in known)
        if self.options.minutes:
            signal.signal(signal.SIGALRM, self.stop)
            signal.setitimer(signal.ITIMER_REAL, 60 * self.options.minutes)
        signal.signal(signal.SIGINT, self.stop)
        results, done, killed, started = {}, 0, 0, time.monotonic()
        with open(self.results_path, "w" if self.options.fresh else "a") as log:
            def one(mutant):
                nonlocal done, killed
                if self.stopped:
                    return
                old = known.get(mutant.key())
                if old and old["verdict"] == "killed" and old["source"] == self.hashes[mutant.file]:
                    result = {**old, "line": mutant.line}
                else:
                    result = self.judge(mutant, old)
                    with self.lock:
                        log.write(json.dumps(result) + "\n")
                        log.flush()
                with self.lock:
                    results[mutant.key()] = result
                    done += 1
                    killed += result["verdict"] == "killed"
                    spent = time.monotonic() - started
                    self.progress(f"{done} of {len(order)} mutants, {100 * killed / done:.1f} % killed, "
                                  f"{spent / done * (len(order) - done) / 60:.0f} minutes left")
            with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
                for _ in pool.map(one, order):
                    pass
        self.progress(None)
        if len(results) < len(mutants):
            print(f"mutate: {len(results)} of {len(mutants)} mutants were judged, drawn at random")
        return [results[m.key()] for m in mutants if m.key() in results]

    stopped = False

    def stop(self, *_):
        """The time is over, or Ctrl-C: what is under way is finished, and all that is known reported."""
        self.stopped = True

    last_shown = 0.0

    def progress(self, text):
        """One line that changes on a terminal; elsewhere a line now and then."""
        terminal = sys.stderr.isatty()
        if text is None:
            if terminal:
                sys.stderr.write("\r\033[K")
            return
        if time.monotonic() - self.last_shown < (0.2 if terminal else 30):
            return
        self.last_shown = time.monotonic()
        sys.stderr.write(f"\r\033[K{text}" if terminal else f"mutate: {text}\n")
        sys.stderr.flush()

    # ---------------------------------------------------------------------- what came of it

    def explained(self):
        """The listed survivors: key -> line of the list."""
        listed = {}
        if self.options.explained and os.path.exists(self.options.explained):
            with open(self.options.explained) as file:
                for text in file:
                    match = LINE.fullmatch(text.rstrip("\n"))
                    if match:
                        path, _, function, nth, operator, new, old = match.groups()
                        listed[(path, function, operator, old, new, int(nth))] = text.rstrip("\n")
        return listed

    def report(self, results):
        listed = self.explained()
        survivors = [r for r in results if r["verdict"] != "killed"]
        with open(os.path.join(self.work, "survivors.txt"), "w") as file:
            for result in survivors:
                known = "explained" if key_of(result) in listed else result["verdict"]
                file.write(f"{known:9} {line_of(result)}\n")
        table = {}
        for result in results:
            row = table.setdefault(result["file"], [0, 0, 0, 0])
            row[0] += 1
            if result["verdict"] == "killed":
                row[1] += 1
            elif key_of(result) in listed:
                row[2] += 1
            elif result["verdict"] == "unreached":
                row[3] += 1
        print(f"{'file':40} {'mutants':>8} {'killed':>8} {'explained':>10} {'left':>6} {'unreached':>10} {'score':>7}")
        total = [0, 0, 0, 0]
        for path, row in sorted(table.items()):
            self.print_row(path, row)
            total = [a + b for a, b in zip(total, row)]
        self.print_row("all", total)
        raw = 100 * total[1] / max(1, total[0])
        bare = 100 * total[1] / max(1, total[0] - total[2])
        print(f"{total[1]} of {total[0]} mutants killed: {raw:.1f} %; without the {total[2]} explained survivors {bare:.1f} %")
        stale = self.stale(results, listed)
        for line in stale:
            print(f"stale: {line}")
        return 1 if stale or raw < self.options.least else 0

    @staticmethod
    def print_row(name, row):
        print(f"{name:40} {row[0]:8} {row[1]:8} {row[2]:10} {row[0] - row[1] - row[2]:6} {row[3]:10} "
              f"{100 * row[1] / max(1, row[0]):6.1f}%")

    def stale(self, results, listed):
        there = {m.key() for m in self.mutants}
        killed = {key_of(r) for r in results if r["verdict"] == "killed"}
        return [f"{line} (gone)" for key, line in listed.items() if key not in there and key[0] in self.hashes] + \
               [f"{line} (killed now)" for key, line in listed.items() if key in killed]


def parse():
    parser = argparse.ArgumentParser(description="How many small wrong changes do the tests notice?")
    parser.add_argument("--work", required=True, help="folder for rewritten files and results")
    parser.add_argument("--build", required=True, help="command that builds the test programs with $MUTANT_CC")
    parser.add_argument("--sources", nargs="+", required=True)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--only", nargs="*", default=[], help="mutants of these sources only")
    parser.add_argument("--explained", help="list of survivors with their reasons")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants only, spread over the files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0, help="stop then, and report what has been judged")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=0, help="fail below so many percent killed")
    parser.add_argument("--fresh", action="store_true", help="forget earlier verdicts")
    parser.add_argument("--longest", type=float, default=0, help="without programs that take more processor seconds")
    parser.add_argument("--list", action="store_true", help="list the mutants, run nothing")
    parser.add_argument("--compiler", default="gcc")
    parser.add_argument("--clang", default="clang")
    parser.add_argument("flags", nargs="*", help="what the sources are compiled with, behind --")
    return parser.parse_args()


def main():
    options = parse()
    options.work = os.path.abspath(options.work)
    sys.setrecursionlimit(10000)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    mutation = Mutation(options)
    try:
        mutation.rewrite()
        if options.list:
            for m in mutation.chosen():
                print(m.number, f"{m.file}:{m.line} {m.function} #{m.nth} {m.operator} ({m.new}): {m.old}")
            return 0
        mutation.build()
        mutation.measure()
        return mutation.report(mutation.run())
    finally:
        mutation.runner.close()


if __name__ == "__main__":
    sys.exit(main())
