# All there is to do with worsegpu; `make help` lists it.
#
# Everything is built into BUILD (default: build): the products themselves, objects in BUILD/obj, tests in
# BUILD/tests. A variant (sanitizers, coverage) is the same build with another BUILD and EXTRA_CFLAGS.
#
# Variables for you: BUILD, CC, CFLAGS, LDFLAGS, EXTRA_CFLAGS, HARDENING, JOBS (how many compilers and tests at
# once), V=1 (show commands and what tests print), PREFIX and the usual folders below, DESTDIR.

SHELL := /bin/sh
BUILD ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
LD ?= ld
OBJCOPY ?= objcopy
INSTALL ?= install
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
bindir ?= $(PREFIX)/bin
sbindir ?= $(PREFIX)/sbin
libdir ?= $(PREFIX)/lib
includedir ?= $(PREFIX)/include
docdir ?= $(PREFIX)/share/doc/worsegpu
mandir ?= $(PREFIX)/share/man
bashcompletiondir ?= $(PREFIX)/share/bash-completion/completions
zshcompletiondir ?= $(PREFIX)/share/zsh/site-functions
sysconfdir ?= $(PREFIX)/etc
unitdir ?= $(PREFIX)/lib/systemd/system
userunitdir ?= $(PREFIX)/lib/systemd/user
sysusersdir ?= $(PREFIX)/lib/sysusers.d
tmpfilesdir ?= $(PREFIX)/lib/tmpfiles.d
VERSION := $(shell cat VERSION)
ABI := 0
# Shown in the manual pages: the day of the newest change, so that equal sources give equal pages.
PAGES_DATE ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
# What of this the compiler at hand knows: an older one, or one for another processor, leaves some out.
known = $(shell echo 'int main(void) { return 0; }' | \
	$(CC) -Werror -O2 $(1) -x c -c -o /dev/null - >/dev/null 2>&1 && echo '$(2)')
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(or $(call known,-include stdio.h -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3,3),2)
STACK := $(foreach f,-fstack-protector-strong -fstack-clash-protection -fcf-protection,$(call known,$(f),$(f)))
HARDENING = $(STACK) $(FORTIFY)
CFLAGS ?= -O2 -g
BASE_CFLAGS = -std=c17 -D_GNU_SOURCE -I. -Ibase -Ilib -Iclient -fPIC -fvisibility=hidden -pthread \
	-DWORSEGPU_VERSION='"$(VERSION)"' $(WARNINGS)
ALL_CFLAGS = $(BASE_CFLAGS) $(HARDENING) $(CFLAGS) $(EXTRA_CFLAGS)
ALL_LDFLAGS = -pthread -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed $(LDFLAGS) $(EXTRA_CFLAGS)
# The library of `worsegpu-cli top`.
CURSES := $(shell pkg-config --libs-only-l ncursesw 2>/dev/null || echo -lncursesw -ltinfo)

SOURCES_base := $(wildcard base/*.c)
SOURCES_lib := $(wildcard lib/*.c lib/blocks/*.c lib/policies/*.c)
SOURCES_console := $(wildcard console/*.c)
SOURCES_lab := $(filter-out lab/main.c,$(wildcard lab/*.c lab/logs/*.c lab/shapes/*.c lab/cases/*.c lab/outputs/*.c))
SOURCES_proto := $(wildcard proto/*.c)
SOURCES_daemon := $(filter-out daemon/main.c,$(wildcard daemon/*.c))
SOURCES_client := $(wildcard client/*.c)
SOURCES_cli := $(filter-out client/cli/%_main.c,$(wildcard client/cli/*.c))
SOURCES_support := $(wildcard tests/support/*.c)
SOURCES_simulation := $(filter-out tests/simulation/simulate.c tests/simulation/test_%,$(wildcard tests/simulation/*.c))
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

PROGRAM_NAMES := worsegpud worsegpu-cli worsegpu-lab worse-gpu-demo worse-gpu-benchmark
LIBRARY_NAMES := libworsegpu libworsegpu-client
HEADERS := lib/worsegpu.h base/worsegpu_memory.h client/worsegpu_client.h client/worsegpu_client_rules.h
PAPERS := README.md LICENSE proto/PROTOCOL.md
JOB_FILES := $(wildcard docs/jobs/*)
MANUAL_PAGES := $(patsubst manual/%.scd.in,$(BUILD)/manual/%,$(wildcard manual/*.scd.in))
COMPLETIONS := $(patsubst completions/%.in,$(BUILD)/completions/%,$(wildcard completions/*.in))
BASH_COMPLETIONS := $(patsubst completions/%.bash.in,%,$(wildcard completions/*.bash.in))
ZSH_COMPLETIONS := $(patsubst completions/%.in,%,$(wildcard completions/_*.in))
UNITS := $(addprefix $(BUILD)/systemd/,worsegpud.service user/worsegpud.service)
PROGRAMS := $(addprefix $(BUILD)/,$(PROGRAM_NAMES))
LIBRARIES := $(addprefix $(BUILD)/,$(foreach l,$(LIBRARY_NAMES),$(l).a $(l).so $(l).pc))

tests_in = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$(1)/$(2)_*.c))
UNIT_TESTS := $(call tests_in,unit,test)
INTEGRATION_TESTS := $(call tests_in,integration,test)
SIMULATION_TESTS := $(call tests_in,simulation,test)
FAULT_TESTS := $(call tests_in,faults,test)
THREAD_TESTS := $(foreach t,$(UNIT_TESTS),$(if $(findstring threads,$(notdir $(t))),$(t)))
BENCHES := $(call tests_in,bench,bench)
FUZZ_TARGETS := $(basename $(notdir $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_TESTS := $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/%)
PAPER_TESTS := $(wildcard tests/papers/*.sh)
ALL_TESTS := $(UNIT_TESTS) $(INTEGRATION_TESTS) $(SIMULATION_TESTS) $(FAULT_TESTS) $(FUZZ_TESTS)

# V=1 shows the commands themselves.
ifdef V
Q :=
note = @:
else
Q := @
note = @printf '  %-8s %s\n'
endif
MAKEFLAGS += --no-print-directory
# A make inside this one works side by side, unless the one outside already shares its jobs.
SUBMAKE = $(MAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))
RUN_TESTS = JOBS=$(JOBS) V='$(V)' tools/run_tests.sh

.DELETE_ON_ERROR:

.PHONY: all programs tests
all: $(PROGRAMS) $(LIBRARIES) $(MANUAL_PAGES) $(COMPLETIONS) $(UNITS) ## build all products into build/ (this is what `make` alone does)
programs: $(PROGRAMS) ## build the programs only
tests: $(ALL_TESTS) ## build the test programs, without running them

# ---------------------------------------------------------------------------------------- building

# Looked at once for each BUILD: one plain sentence instead of a wall of compiler errors.
PACKAGES := $(BUILD)/obj/.packages
$(PACKAGES):
	@CC='$(CC)' tools/deps.sh --check build
	@mkdir -p $(@D) && touch $@

$(BUILD)/obj/%.o: %.c VERSION | $(PACKAGES)
	$(note) compile $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The folders as archives, for our own programs and tests.
define archive
$(BUILD)/obj/$(1).a: $(call objects,$(SOURCES_$(1)))
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)ar rcs $$@ $$^
endef
$(foreach folder,base lib proto console daemon client cli lab support simulation,$(eval $(call archive,$(folder))))

# The page of `replay --html` travels inside the program.
PAGE_OBJECT := $(BUILD)/obj/lab/page/embed.o
$(PAGE_OBJECT): lab/page/embed.S lab/page/page.html | $(PACKAGES)
	$(note) compile $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(EXTRA_CFLAGS) -I. -c -o $@ $<
$(BUILD)/obj/lab.a: $(PAGE_OBJECT)

ARCHIVES := $(addprefix $(BUILD)/obj/,lab.a cli.a client.a daemon.a console.a proto.a lib.a base.a)

$(BUILD)/worsegpud: $(BUILD)/obj/daemon/main.o $(addprefix $(BUILD)/obj/,daemon.a proto.a lib.a base.a)
	$(note) link $@
	$(Q)$(CC) -pie $(ALL_LDFLAGS) -o $@ $^ -luv -lcjson -linih -lsystemd -lm

$(BUILD)/worsegpu-cli $(BUILD)/worse-gpu-demo $(BUILD)/worse-gpu-benchmark: $(BUILD)/%: \
		$(addprefix $(BUILD)/obj/,cli.a client.a console.a proto.a base.a)
$(BUILD)/worsegpu-cli: $(BUILD)/obj/client/cli/cli_main.o
$(BUILD)/worse-gpu-demo: $(BUILD)/obj/client/cli/demo_main.o
$(BUILD)/worse-gpu-benchmark: $(BUILD)/obj/client/cli/benchmark_main.o
$(BUILD)/worsegpu-cli $(BUILD)/worse-gpu-demo $(BUILD)/worse-gpu-benchmark:
	$(note) link $@
	$(Q)$(CC) -pie $(ALL_LDFLAGS) -o $@ $(filter %_main.o,$^) $(filter %.a,$^) -lcjson $(CURSES) -lm

$(BUILD)/worsegpu-lab: $(BUILD)/obj/lab/main.o $(addprefix $(BUILD)/obj/,lab.a console.a proto.a lib.a base.a)
	$(note) link $@
	$(Q)$(CC) -pie $(ALL_LDFLAGS) -o $@ $^ -lcjson -lz -lm

# Manual pages and completions: a source with holes, filled from the tables of the code (manual/manual.h).
MANUAL := $(BUILD)/obj/manual/manual
$(MANUAL): $(call objects,$(wildcard manual/*.c)) $(ARCHIVES)
	$(note) link $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-luv -lcjson -linih -lsystemd $(CURSES) -lm
$(MANUAL_PAGES): $(BUILD)/manual/%: manual/%.scd.in $(MANUAL)
	$(note) manual $@
	@mkdir -p $(@D)
	$(Q)$(MANUAL) <$< >$@.scd && SOURCE_DATE_EPOCH=$(PAGES_DATE) scdoc <$@.scd >$@
$(COMPLETIONS): $(BUILD)/completions/%: completions/%.in $(MANUAL)
	@mkdir -p $(@D)
	$(Q)$(MANUAL) <$< >$@

# Units name the folders of this very call: written each time.
$(UNITS): $(BUILD)/systemd/%: systemd/%.in FORCE
	@mkdir -p $(@D)
	@sed 's|@sbindir@|$(sbindir)|; s|@sysconfdir@|$(sysconfdir)|' $< >$@
.PHONY: manual
manual: $(MANUAL_PAGES) $(COMPLETIONS) ## build the manual pages and completions only

# The libraries as products: one relocatable object each, so that hidden names stay hidden in .a as well.
OBJECTS_libworsegpu = $(call objects,$(SOURCES_lib) $(SOURCES_base))
OBJECTS_libworsegpu-client = $(call objects,$(SOURCES_client) $(SOURCES_proto) $(SOURCES_base))
LINKS_libworsegpu := -lm
LINKS_libworsegpu-client := -lcjson -lm
ABOUT_libworsegpu := the engine of worsegpu, a fake GPU allocator that misbehaves on purpose
ABOUT_libworsegpu-client := talks to worsegpud, the daemon that shares a fake GPU
MAP_libworsegpu := lib/libworsegpu.map
MAP_libworsegpu-client := client/libworsegpu-client.map
define library
$(BUILD)/obj/$(1).whole.o: $(OBJECTS_$(1))
	$(Q)$(LD) -r -o $$@ $$^
	$(Q)$(OBJCOPY) --localize-hidden $$@
$(BUILD)/$(1).a: $(BUILD)/obj/$(1).whole.o
	$(note) archive $$@
	@rm -f $$@
	$(Q)ar rcs $$@ $$^
$(BUILD)/$(1).so.$(VERSION): $(OBJECTS_$(1)) $(MAP_$(1))
	$(note) link $$@
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -Wl,-z,defs -Wl,-soname,$(1).so.$(ABI) \
		-Wl,--version-script=$(MAP_$(1)) -o $$@ $(OBJECTS_$(1)) $(LINKS_$(1))
$(BUILD)/$(1).so: $(BUILD)/$(1).so.$(VERSION)
	@ln -sf $(1).so.$(VERSION) $(BUILD)/$(1).so.$(ABI)
	@ln -sf $(1).so.$(ABI) $$@
# Written each time, since it names the folders of this very call.
$(BUILD)/$(1).pc: FORCE | $(PACKAGES)
	@tools/pkg_config_file.sh '$(1)' '$(VERSION)' '$(PREFIX)' '$(libdir)' '$(includedir)' \
		'$(LINKS_$(1)) -pthread' '$(ABOUT_$(1))' >$$@
endef
$(foreach l,$(LIBRARY_NAMES),$(eval $(call library,$(l))))
.PHONY: FORCE
FORCE:

# Tests. A test may use any internal: it is linked with all folders' archives.
TEST_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(filter-out tests/support/% tests/fuzz/replay.c \
	tests/faults/interposer.c $(SOURCES_simulation) tests/simulation/simulate.c tests/bench/instructions.c,$(wildcard tests/*/*.c)))
# A fuzz target has no main: here it gets one that runs it over its corpus.
$(FUZZ_TESTS): REPLAY := $(BUILD)/obj/tests/fuzz/replay.o
$(FUZZ_TESTS): $(BUILD)/obj/tests/fuzz/replay.o
$(TEST_PROGRAMS): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/obj/support.a $(ARCHIVES)
	$(note) link $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(REPLAY) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-lcmocka -luv -lcjson -linih -lz -lsystemd $(CURSES) -lm

# The simulator needs the daemon only.
SIMULATE := $(BUILD)/tests/simulation/simulate
$(SIMULATE): $(BUILD)/obj/tests/simulation/simulate.o \
		$(addprefix $(BUILD)/obj/,simulation.a support.a daemon.a proto.a lib.a base.a)
	$(note) link $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka -luv -lcjson -linih -lm
$(SIMULATION_TESTS): $(BUILD)/obj/simulation.a | $(SIMULATE)

# So does what counts the daemon's instructions.
COUNT := $(BUILD)/tests/bench/instructions
$(COUNT): $(BUILD)/obj/tests/bench/instructions.o $(addprefix $(BUILD)/obj/,support.a daemon.a proto.a lib.a base.a)
	$(note) link $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka -luv -lcjson -linih -lm

# What some tests load into a program, always a plain build.
INTERPOSER := $(BUILD)/tests/faults/interposer.so
$(INTERPOSER): tests/faults/interposer.c tests/faults/interposer.h | $(PACKAGES)
	$(note) link $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -shared -o $@ $<
$(FAULT_TESTS): | $(INTERPOSER) $(BUILD)/worsegpud $(BUILD)/worsegpu-cli

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------------------------------- looking at it

.PHONY: help deps demo test
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s%s\n", $$1, $$2 }' Makefile

DEPS ?= build test
deps: ## install what is missing to build and test (DEPS=all: for everything below as well)
	@tools/deps.sh $(DEPS)

demo: ## install what is missing, build, and show the main job in a few seconds
	@tools/deps.sh build
	@$(SUBMAKE) programs
	@WORSEGPU_BUILD='$(BUILD)' tools/demo.sh

test: ## install what is missing, build, and run all tests
	@tools/deps.sh build test
	@$(SUBMAKE) all tests
	@WORSEGPU_BUILD='$(BUILD)' $(RUN_TESTS) $(ALL_TESTS) $(PAPER_TESTS)

# ---------------------------------------------------------------------------------------- checking it

.PHONY: lint sanitize valgrind coverage bench soak acceptance fuzz bench-daemon instructions
lint: ## clang-format, clang-tidy, cppcheck, both compilers and analyzers, shellcheck, hardening, our own rules
	@tools/deps.sh build test lint
	@$(SUBMAKE) all tests
	@BUILD='$(BUILD)' JOBS=$(JOBS) tools/lint.sh $(BASE_CFLAGS)

ASAN := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN := -fsanitize=thread -fno-omit-frame-pointer
# FORTIFY hides errors from the sanitizers.
# Half of the time goes into building: -g1 is enough for the lines in a report, and gold links twice as fast.
GOLD := $(if $(shell command -v ld.gold 2>/dev/null),-fuse-ld=gold)
variant = $(SUBMAKE) CC=gcc BUILD='$(BUILD)/$(1)' HARDENING=-fstack-protector-strong CFLAGS='-O1 -g1' LDFLAGS='$(GOLD)' \
	EXTRA_CFLAGS='$(2)'
# Sanitizers cannot place their shadow where the kernel spreads addresses too widely.
STILL := $(shell setarch -R true 2>/dev/null && echo setarch -R)
sanitize: ## tests under ASan and UBSan, the library's thread tests under TSan
	@tools/deps.sh build test
	@$(call variant,sanitize-asan,$(ASAN)) programs tests
	@$(call variant,sanitize-tsan,$(TSAN)) thread-tests
	@failed=; \
	UBSAN_OPTIONS=print_stacktrace=1 WORSEGPU_BUILD='$(BUILD)/sanitize-asan' WRAPPER='$(STILL)' \
		ORDER_FROM='$(abspath $(BUILD))/tests/seconds' $(RUN_TESTS) \
		$(patsubst $(BUILD)/%,$(BUILD)/sanitize-asan/%,$(ALL_TESTS)) || failed=yes; \
	WORSEGPU_BUILD='$(BUILD)/sanitize-tsan' WRAPPER='$(STILL)' $(RUN_TESTS) \
		$(patsubst $(BUILD)/%,$(BUILD)/sanitize-tsan/%,$(THREADS)) || failed=yes; \
	test -z "$$failed"
# With a build of their own, they need the engine alone.
THREADS := $(THREAD_TESTS:$(BUILD)/%=$(BUILD)/threads/%)
.PHONY: thread-tests
thread-tests: $(THREADS)
$(THREADS): $(BUILD)/threads/%: $(BUILD)/obj/%.o $(BUILD)/obj/tests/support/engine.o $(addprefix $(BUILD)/obj/,lib.a base.a)
	$(note) link $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka -lcjson -lm

valgrind: ## unit tests under valgrind's memcheck
	@tools/deps.sh build test valgrind
	@$(SUBMAKE) $(UNIT_TESTS)
	@WORSEGPU_BUILD='$(BUILD)' TEST_SECONDS=3600 \
		WRAPPER='valgrind --quiet --error-exitcode=9 --leak-check=full --vgdb=no' $(RUN_TESTS) $(UNIT_TESTS)

# Where system calls fail or processes are killed, the writing of the counters is cut as well, and who comes next starts
# them anew: these write theirs elsewhere.
UNCOUNTED := $(addprefix $(BUILD)/tests/faults/,test_kills test_system_calls test_transfers)
# gnu17: only then gcc writes the counters before exec takes the program away. The counters are for everybody to
# write, since some tests run the programs as other users.
coverage: ## lines and branches that the tests run, for each folder and file; fails below the goals
	@tools/deps.sh build test coverage
	@find '$(BUILD)/coverage' -name '*.gcda' -delete 2>/dev/null || true
	@$(SUBMAKE) CC=gcc BUILD='$(BUILD)/coverage' HARDENING= CFLAGS='-std=gnu17 -O0 -g' EXTRA_CFLAGS=--coverage programs tests
	@chmod -R a+rwX '$(BUILD)/coverage/obj'
	@failed=; umask 0; \
	WORSEGPU_BUILD='$(BUILD)/coverage' $(RUN_TESTS) \
		$(patsubst $(BUILD)/%,$(BUILD)/coverage/%,$(filter-out $(UNCOUNTED),$(ALL_TESTS))) || failed=yes; \
	GCOV_PREFIX='$(abspath $(BUILD))/coverage/uncounted' WORSEGPU_BUILD='$(BUILD)/coverage' $(RUN_TESTS) \
		$(patsubst $(BUILD)/%,$(BUILD)/coverage/%,$(UNCOUNTED)) || failed=yes; \
	tools/coverage.sh '$(BUILD)/coverage' && test -z "$$failed"

bench: ## measure speed: ratios and rates, no verdicts
	@tools/deps.sh build test bench
	@$(SUBMAKE) programs $(BENCHES)
	@for bench in $(BENCHES); do WORSEGPU_BUILD='$(abspath $(BUILD))' $$bench || exit 1; done

bench-daemon: ## the daemon beside Redis and an echo, in a minute (BENCH= for the long run, as in `make bench`)
	@tools/deps.sh build test bench
	@$(SUBMAKE) programs '$(BUILD)/tests/bench/bench_daemon'
	@WORSEGPU_BUILD='$(abspath $(BUILD))' '$(BUILD)/tests/bench/bench_daemon' $(BENCH)
BENCH := --quick

instructions: ## count the instructions that a request takes, and hold them against the budget
	@tools/deps.sh build test valgrind
	@$(SUBMAKE) CC=gcc '$(COUNT)'
	@BUILD='$(BUILD)' CC=gcc tools/instructions.sh

# Not from the environment: bash has a SECONDS of its own.
SECONDS := 600
soak: ## load the daemon with 16 unruly processes for SECONDS (600) and see what it keeps; SEED=N for the same again
	@tools/deps.sh build test
	@$(SUBMAKE) programs '$(BUILD)/tests/soak/soak'
	@WORSEGPU_BUILD='$(abspath $(BUILD))' WORSEGPU_SOAK_SECONDS='$(SECONDS)' WORSEGPU_SOAK_SEED='$(SEED)' \
		'$(BUILD)/tests/soak/soak'

SEEDS ?= 10000
FROM ?= 1
STEPS ?= 400
.PHONY: simulate
simulate: ## run the daemon's own code in a simulated world with SEEDS (10000) seeds from FROM (1) on, STEPS (400) steps each
	@tools/deps.sh build test
	@$(SUBMAKE) '$(SIMULATE)'
	@WORSEGPU_BUILD='$(BUILD)' '$(SIMULATE)' --from '$(FROM)' --seeds '$(SEEDS)' --steps '$(STEPS)' --jobs $(JOBS)

ROUNDS := 1000
.PHONY: faults kills
faults: ## have every system call of the daemon fail with each error at each of its uses, transfer byte by byte, let clocks jump
	@tools/deps.sh build test
	@$(SUBMAKE) programs $(FAULT_TESTS) '$(BUILD)/tests/integration/test_protocol_examples' \
		'$(BUILD)/tests/integration/test_metrics_file'
	@for test in $(FAULT_TESTS); do \
		WORSEGPU_FAULTS=all WORSEGPU_BUILD='$(abspath $(BUILD))' $$test || exit 1; done

kills: ## kill clients and the daemon at random moments, ROUNDS (1000) times, and time the restarts; SEED=N for the same again
	@tools/deps.sh build test
	@$(SUBMAKE) programs '$(BUILD)/tests/faults/test_kills'
	@WORSEGPU_BUILD='$(abspath $(BUILD))' WORSEGPU_KILL_ROUNDS='$(ROUNDS)' WORSEGPU_KILL_SEED='$(SEED)' \
		WORSEGPU_KILL_RESTART_MS=200 '$(BUILD)/tests/faults/test_kills'

TIME ?= 60
FUZZ := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_COVERAGE := -fsanitize=fuzzer-no-link -fsanitize-coverage-ignorelist=tests/fuzz/not_counted.txt
fuzz: ## feed mutated input to each fuzz target for TIME (60) seconds, JOBS at once, with clang's libFuzzer
	@tools/deps.sh build test fuzz
	@$(SUBMAKE) CC=clang BUILD='$(BUILD)/fuzz' HARDENING= CFLAGS='-O1 -g' \
		EXTRA_CFLAGS='$(FUZZ) $(FUZZ_COVERAGE)' fuzz-programs
	@BUILD='$(BUILD)' TIME='$(TIME)' JOBS='$(JOBS)' WRAPPER='$(STILL)' tools/fuzz.sh $(FUZZ_TARGETS)
.PHONY: fuzz-programs
fuzz-programs: $(FUZZ_TARGETS:%=$(BUILD)/%)
$(FUZZ_TARGETS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/support.a $(ARCHIVES)
	$(note) link $@
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-lcmocka -luv -lcjson -linih -lz -lsystemd $(CURSES) -lm

# The unit tests that use lib directly, built once with all mutants of lib in it; verdicts gather in
# BUILD/mutation/results.ndjson.
USES_LIB := include "(lib/|lab/(lab|replay)|tests/support/(policy_world|torch_world|engine|made_events|naive_torch|naive_range))
MUTATION_TESTS := $(patsubst %.c,$(BUILD)/%,$(shell grep -lE '$(USES_LIB)' tests/unit/test_*.c))
MUTATION := $(BUILD)/mutation
.PHONY: mutate mutation-tests
mutate: ## change lib in thousands of small ways and see whether its tests notice (hours); FILE=lib/x.c, SAMPLE=300, MINUTES=60
	@tools/deps.sh build test mutation
	@WORSEGPU_SHARED='$(WORSEGPU_SHARED)' WORSEGPU_GOLDEN=tests/golden WORSEGPU_BUILD='$(abspath $(BUILD))' \
		nice -n $(NICE) python3 tools/mutate.py --work '$(MUTATION)' --jobs $(JOBS) --explained tests/MUTATION.md \
		$(if $(FILE),--only $(FILE)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
		$(if $(MINUTES),--minutes $(MINUTES)) $(MUTATE) \
		--build '$(SUBMAKE) BUILD=$(MUTATION) CC="$$MUTANT_CC" HARDENING= CFLAGS="-O1 -g0" mutation-tests' \
		--sources $(SOURCES_lib) --tests $(MUTATION_TESTS:$(BUILD)/%=$(MUTATION)/%) -- $(BASE_CFLAGS)
mutation-tests: $(MUTATION_TESTS)
NICE ?= 15

.PHONY: page pagecheck pictures
page: ## make the page of `replay --html` from its sources and uPlot, with npm; the result is committed
	@tools/deps.sh page
	@BUILD='$(BUILD)' tools/pagecheck.sh build

pagecheck: ## is that page what its sources give? then its tests in headless Chromium
	@tools/deps.sh build page
	@$(SUBMAKE) '$(BUILD)/worsegpu-lab'
	@BUILD='$(BUILD)' tools/pagecheck.sh check

pictures: ## make the pictures of the page in docs anew
	@tools/deps.sh build page
	@$(SUBMAKE) '$(BUILD)/worsegpu-lab'
	@BUILD='$(BUILD)' tools/pagecheck.sh pictures

WORSEGPU_SHARED ?= ../shared
acceptance: ## the acceptance scripts of WORSEGPU_SHARED (default ../shared), where they are
	@if [ -x '$(WORSEGPU_SHARED)/acceptance/run_all.sh' ]; then \
		tools/deps.sh build acceptance && $(SUBMAKE) all && \
		'$(WORSEGPU_SHARED)/acceptance/run_all.sh' --build '$(BUILD)'; \
	else \
		echo 'acceptance: skipped, there is no $(WORSEGPU_SHARED)/acceptance/run_all.sh'; \
	fi

# ---------------------------------------------------------------------------------------- installing it

CONFIGURATION := $(sysconfdir)/worsegpu/worsegpu.conf
INSTALL_FOLDERS := $(sbindir) $(bindir) $(libdir)/pkgconfig $(includedir) $(docdir)/jobs $(sort $(foreach p,$(MANUAL_PAGES),\
	$(mandir)/man$(patsubst .%,%,$(suffix $(p))))) $(bashcompletiondir) $(zshcompletiondir) $(dir $(CONFIGURATION)) $(unitdir) \
	$(userunitdir) $(sysusersdir) $(tmpfilesdir)
.PHONY: install uninstall installcheck
install: all ## install into PREFIX (/usr/local), below DESTDIR if that is set
	$(INSTALL) -d $(foreach d,$(INSTALL_FOLDERS),'$(DESTDIR)$(d)')
	$(INSTALL) -m 755 $(BUILD)/worsegpud '$(DESTDIR)$(sbindir)'
	$(INSTALL) -m 755 $(filter-out %/worsegpud,$(PROGRAMS)) '$(DESTDIR)$(bindir)'
	$(INSTALL) -m 644 $(LIBRARY_NAMES:%=$(BUILD)/%.a) $(LIBRARY_NAMES:%=$(BUILD)/%.so.$(VERSION)) '$(DESTDIR)$(libdir)'
	for l in $(LIBRARY_NAMES); do \
		ln -sf $$l.so.$(VERSION) '$(DESTDIR)$(libdir)'/$$l.so.$(ABI) && \
		ln -sf $$l.so.$(ABI) '$(DESTDIR)$(libdir)'/$$l.so || exit 1; done
	$(INSTALL) -m 644 $(LIBRARY_NAMES:%=$(BUILD)/%.pc) '$(DESTDIR)$(libdir)/pkgconfig'
	$(INSTALL) -m 644 $(HEADERS) '$(DESTDIR)$(includedir)'
	$(INSTALL) -m 644 $(PAPERS) '$(DESTDIR)$(docdir)'
	$(INSTALL) -m 644 $(JOB_FILES) '$(DESTDIR)$(docdir)/jobs'
	for p in $(MANUAL_PAGES); do \
		$(INSTALL) -m 644 $$p '$(DESTDIR)$(mandir)'/man$${p##*.} || exit 1; done
	for c in $(BASH_COMPLETIONS); do \
		$(INSTALL) -m 644 $(BUILD)/completions/$$c.bash '$(DESTDIR)$(bashcompletiondir)'/$$c || exit 1; done
	$(INSTALL) -m 644 $(ZSH_COMPLETIONS:%=$(BUILD)/completions/%) '$(DESTDIR)$(zshcompletiondir)'
	$(INSTALL) -m 644 systemd/worsegpud.socket $(BUILD)/systemd/worsegpud.service '$(DESTDIR)$(unitdir)'
	$(INSTALL) -m 644 systemd/user/worsegpud.socket $(BUILD)/systemd/user/worsegpud.service '$(DESTDIR)$(userunitdir)'
	$(INSTALL) -m 644 systemd/worsegpu.sysusers '$(DESTDIR)$(sysusersdir)/worsegpu.conf'
	$(INSTALL) -m 644 systemd/worsegpu.tmpfiles '$(DESTDIR)$(tmpfilesdir)/worsegpu.conf'
	[ -e '$(DESTDIR)$(CONFIGURATION)' ] || $(INSTALL) -m 644 systemd/worsegpu.conf '$(DESTDIR)$(CONFIGURATION)'
	@[ -n '$(DESTDIR)' ] || echo 'installed; programs that use the shared libraries find them after: ldconfig'

uninstall: ## remove what install put there (same PREFIX and DESTDIR)
	rm -f '$(DESTDIR)$(sbindir)/worsegpud'
	cd '$(DESTDIR)$(bindir)' 2>/dev/null && rm -f $(filter-out worsegpud,$(PROGRAM_NAMES)) || true
	cd '$(DESTDIR)$(libdir)' 2>/dev/null && rm -f $(foreach l,$(LIBRARY_NAMES),$(l).a $(l).so $(l).so.$(ABI) \
		$(l).so.$(VERSION) pkgconfig/$(l).pc) || true
	cd '$(DESTDIR)$(includedir)' 2>/dev/null && rm -f $(notdir $(HEADERS)) || true
	cd '$(DESTDIR)$(docdir)' 2>/dev/null && rm -f $(notdir $(PAPERS)) $(JOB_FILES:docs/%=%) || true
	cd '$(DESTDIR)$(mandir)' 2>/dev/null && rm -f $(foreach p,$(notdir $(MANUAL_PAGES)),man?/$(p)) || true
	cd '$(DESTDIR)$(bashcompletiondir)' 2>/dev/null && rm -f $(BASH_COMPLETIONS) || true
	cd '$(DESTDIR)$(zshcompletiondir)' 2>/dev/null && rm -f $(ZSH_COMPLETIONS) || true
	rm -f $(foreach d,$(unitdir) $(userunitdir),'$(DESTDIR)$(d)/worsegpud.service' '$(DESTDIR)$(d)/worsegpud.socket')
	rm -f '$(DESTDIR)$(sysusersdir)/worsegpu.conf' '$(DESTDIR)$(tmpfilesdir)/worsegpu.conf'
	@if cmp -s systemd/worsegpu.conf '$(DESTDIR)$(CONFIGURATION)'; then rm -f '$(DESTDIR)$(CONFIGURATION)'; \
	elif [ -e '$(DESTDIR)$(CONFIGURATION)' ]; then echo 'left, because it was changed: $(DESTDIR)$(CONFIGURATION)'; fi
	rmdir '$(DESTDIR)$(docdir)/jobs' '$(DESTDIR)$(docdir)' '$(DESTDIR)$(dir $(CONFIGURATION))' 2>/dev/null || true

installcheck: ## install into a temporary folder, use it from C and C++, uninstall
	@tools/deps.sh build installcheck
	@$(SUBMAKE) all
	@BUILD='$(BUILD)' VERSION='$(VERSION)' ABI='$(ABI)' MAKE='$(MAKE)' tools/installcheck.sh

.PHONY: deb debcheck unitcheck
deb: ## build the Debian packages into build/deb, and have lintian look at them
	@tools/deps.sh build deb
	@JOBS=$(JOBS) tools/deb.sh '$(BUILD)/deb'

debcheck: deb ## install the packages into a clean root, use them, remove them (as root)
	@tools/deps.sh debcheck
	@tools/debcheck.sh '$(BUILD)/deb'

unitcheck: $(UNITS) ## systemd's own opinion of the units
	@tools/deps.sh unitcheck
	@BUILD='$(BUILD)' tools/unitcheck.sh

# ---------------------------------------------------------------------------------------- tidying up

.PHONY: format clean
format: ## lay out all C files as .clang-format says
	@tools/deps.sh lint
	@tools/list_files.sh '*.c' '*.h' | xargs clang-format -i

clean: ## remove everything that was built
	rm -rf '$(BUILD)'
