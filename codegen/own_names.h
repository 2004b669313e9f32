// The names that a source chose for itself, so that programs that differ in them alone count as
// one. Internal to codegen/. Thread-safe (pure function).
//
// Without a parser this errs to one side only: a name is replaced when every use of it must be the
// source's own, so two programs that do different things keep different texts. Left as they are:
// names after or before . -> :: (members and namespaces: float4's x, dim::M), names in directives
// and in macros, names that are called without being defined here, and whatever begins with "__".
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "codegen/source_lexer.h"

namespace grove::codegen {

// From a name to what stands for it: "$1" for the first in the source, and so on. The views lead
// into the lexed source.
using OwnNames = std::map<std::string_view, std::string, std::less<>>;
OwnNames FindOwnNames(const LexedSource& source);

}  // namespace grove::codegen
