#include "results/exports/kernel_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/compile_options.h"
#include "codegen/headers.h"

namespace grove::results {
namespace {

// The names between < > or " " of the #include lines of a text.
std::vector<std::string> Includes(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == line.npos || line[hash] != '#') continue;
    const std::size_t open = line.find_first_of("<\"", hash);
    const std::size_t close = open == line.npos ? open : line.find_first_of(">\"", open + 1);
    if (close == line.npos || line.substr(hash, open - hash).find("include") == line.npos) continue;
    names.emplace_back(line.substr(open + 1, close - open - 1));
  }
  return names;
}

}  // namespace

std::vector<Header> HeadersOf(const ExportedKernel& kernel, const codegen::KernelProgram& program) {
  const std::vector<Header> all = codegen::BuiltinHeaders();
  std::vector<std::string> waiting = Includes(program.source);
  for (const std::size_t index : kernel.cases) {
    for (std::string& name : Includes(codegen::Prelude(kernel.task.cases[index]))) {
      waiting.push_back(std::move(name));
    }
  }
  std::vector<bool> taken(all.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].find('/') != std::string::npos) return all;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (all[k].first != waiting[i] || taken[k]) continue;
      taken[k] = true;
      for (std::string& name : Includes(all[k].second)) waiting.push_back(std::move(name));
    }
  }
  std::vector<Header> headers;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (taken[k]) headers.push_back(all[k]);
  }
  return headers;
}

std::string OptionList() {
  std::vector<std::string> options = codegen::BaseOptions();
  options.emplace_back("--std=c++17");
  return fmt::format("\"{}\"", fmt::join(options, "\", \""));
}

std::string CppText(std::string_view text) {
  std::string mark = "cuda";
  for (int i = 2; text.find(")" + mark + "\"") != text.npos; ++i) mark = fmt::format("cuda{}", i);
  return fmt::format("R\"{0}({1}){0}\"", mark, text);
}

std::string TextConstants(const ExportedKernel& kernel, const codegen::KernelProgram& program,
                          std::string_view name, bool widened) {
  std::string text =
      fmt::format("static const char* const {}Source = {};\n\n", name, CppText(program.source));
  text += fmt::format("static const char* const {}Preludes[] = {{  // by case\n", name);
  for (const std::size_t index : kernel.cases) {
    seeds::Case c = kernel.task.cases[index];
    if (widened) c = Widened(std::move(c));
    text += CppText(codegen::Prelude(c)) + ",\n";
  }
  return text + "};\n\n";
}

std::string HeaderTable(const std::vector<Header>& headers) {
  std::string text =
      "// Beside the toolkit's headers, since NVRTC has no standard ones: names and texts.\n"
      "static const char* const Headers[][2] = {\n";
  for (const auto& [name, content] : headers) {
    text += fmt::format("{{\"{}\", {}}},\n", name, CppText(content));
  }
  return text + "};\n\n";
}

std::string TextFunction(const std::vector<std::string>& kernels, std::string_view name) {
  return fmt::format(
      "static const grove_plan::Text& {0}() {{\n"
      "  static const grove_plan::Text text = [] {{\n"
      "    grove_plan::Text t{{{0}Source, {{}}, {{\"{1}\"}}}};\n"
      "    for (const auto& header : Headers) t.headers.push_back({{header[0], header[1]}});\n"
      "    return t;\n  }}();\n  return text;\n}}\n\n",
      name, fmt::join(kernels, "\", \""));
}

}  // namespace grove::results
