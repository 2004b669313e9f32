// Expressions of launch plans (base/expr.h) as text of another language, for exported host code.
// Arithmetic stays that of the plan: exact 64-bit integers, `/` and `%` towards zero, && || ?: that
// evaluate only what they need. Overflow is not checked again: a plan is resolved for each exported
// case before it is written out. Pure and thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/expr.h"

namespace grove::codegen {

enum class HostLanguage { kCpp, kPython };

// The text of a name in the other language.
using Rename = std::function<std::string(std::string_view name)>;

// C++ wants min(a, b, ...), max(a, b, ...) and ceil_div(a, b) on `long long` in namespace
// grove_plan; Python wants _div(a, b) and _mod(a, b) that truncate towards zero, and _ceil_div.
std::string ExpressionText(const Expr& expression, HostLanguage language, const Rename& rename);

}  // namespace grove::codegen
