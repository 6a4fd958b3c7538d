# All there is to do with worsegpu; `make help` lists it.
#
# Everything is built into BUILD (default: build). Objects lie beside it in BUILD/obj, tests in BUILD/tests.
# A variant (sanitizers, coverage) is the same build with another BUILD and EXTRA_CFLAGS.

SHELL := /bin/sh
BUILD ?= build
CC ?= gcc
PREFIX ?= /usr/local
VERSION := $(shell cat VERSION)
ABI := 0

WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
HARDENING := -fstack-protector-strong -D_FORTIFY_SOURCE=2
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE -I. -Ibase -Ilib -Iclient -fPIC -fvisibility=hidden -pthread \
	-DWORSEGPU_VERSION='"$(VERSION)"' $(WARNINGS) $(HARDENING) $(CFLAGS) $(EXTRA_CFLAGS)
ALL_LDFLAGS = -pthread -Wl,-z,relro -Wl,-z,now -Wl,--as-needed $(LDFLAGS) $(EXTRA_CFLAGS)

SOURCES_base := $(wildcard base/*.c)
SOURCES_lib := $(wildcard lib/*.c lib/policies/*.c)
SOURCES_proto := $(wildcard proto/*.c)
SOURCES_daemon := $(filter-out daemon/main.c,$(wildcard daemon/*.c))
SOURCES_client := $(wildcard client/*.c)
SOURCES_cli := $(filter-out client/cli/%_main.c,$(wildcard client/cli/*.c))
SOURCES_support := $(wildcard tests/support/*.c)
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

PROGRAMS := worsegpud worsegpu-cli worse-gpu-demo worse-gpu-benchmark
LIBRARIES := libworsegpu libworsegpu-client
PRODUCTS := $(addprefix $(BUILD)/,$(PROGRAMS) $(foreach l,$(LIBRARIES),$(l).a $(l).so $(l).pc))

UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
INTEGRATION_TESTS := $(patsubst tests/integration/%.c,$(BUILD)/tests/integration/%,$(wildcard tests/integration/test_*.c))
ALL_TESTS := $(UNIT_TESTS) $(INTEGRATION_TESTS)

.PHONY: all
all: $(PRODUCTS)

$(BUILD)/obj/%.o: %.c VERSION
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The folders as archives, for our own programs and tests.
define archive
$(BUILD)/obj/$(1).a: $(call objects,$(SOURCES_$(1)))
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(foreach folder,base lib proto daemon client cli support,$(eval $(call archive,$(folder))))

ARCHIVES := $(addprefix $(BUILD)/obj/,cli.a client.a daemon.a proto.a lib.a base.a)

$(BUILD)/worsegpud: $(BUILD)/obj/daemon/main.o $(addprefix $(BUILD)/obj/,daemon.a proto.a lib.a base.a)
	$(CC) -pie $(ALL_LDFLAGS) -o $@ $^ -luv -lcjson -linih -lm

$(BUILD)/worsegpu-cli $(BUILD)/worse-gpu-demo $(BUILD)/worse-gpu-benchmark: $(BUILD)/%: \
		$(addprefix $(BUILD)/obj/,cli.a client.a proto.a base.a)
$(BUILD)/worsegpu-cli: $(BUILD)/obj/client/cli/cli_main.o
$(BUILD)/worse-gpu-demo: $(BUILD)/obj/client/cli/demo_main.o
$(BUILD)/worse-gpu-benchmark: $(BUILD)/obj/client/cli/benchmark_main.o
$(BUILD)/worsegpu-cli $(BUILD)/worse-gpu-demo $(BUILD)/worse-gpu-benchmark:
	$(CC) -pie $(ALL_LDFLAGS) -o $@ $(filter %_main.o,$^) $(filter %.a,$^) -lcjson -lm

# The libraries as products: one relocatable object each, so that hidden names stay hidden in .a as well.
OBJECTS_libworsegpu = $(call objects,$(SOURCES_lib) $(SOURCES_base))
OBJECTS_libworsegpu-client = $(call objects,$(SOURCES_client) $(SOURCES_proto) $(SOURCES_base))
LINKS_libworsegpu := -lm
LINKS_libworsegpu-client := -lcjson -lm
define library
$(BUILD)/obj/$(1).whole.o: $(OBJECTS_$(1))
	ld -r -o $$@ $$^
	objcopy --localize-hidden $$@
$(BUILD)/$(1).a: $(BUILD)/obj/$(1).whole.o
	@rm -f $$@
	ar rcs $$@ $$^
$(BUILD)/$(1).so.$(VERSION): $(OBJECTS_$(1))
	$(CC) -shared $(ALL_LDFLAGS) -Wl,-z,defs -Wl,-soname,$(1).so.$(ABI) -o $$@ $$^ $(LINKS_$(1))
$(BUILD)/$(1).so: $(BUILD)/$(1).so.$(VERSION)
	ln -sf $(1).so.$(VERSION) $(BUILD)/$(1).so.$(ABI)
	ln -sf $(1).so.$(ABI) $$@
endef
$(foreach l,$(LIBRARIES),$(eval $(call library,$(l))))

# Tests. A test may use any internal: it is linked with all folders' archives.
$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/obj/support.a $(ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lcmocka -luv -lcjson -linih -lm

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
