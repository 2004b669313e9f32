// toml++ as every source of ours includes it (sources only: it is a heavy header), with the
// settings that must be the same everywhere in the program, or its inline functions clash.
//
// Its parser (3.3) asserts what it has not checked yet: "[>" ends the program where NDEBUG is not
// defined, and where it is, clang is told that such text cannot be. Without the assertion the
// parser goes on and reports the character as the error that it is.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(expression) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
