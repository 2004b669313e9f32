// task.toml texts of small tasks over n floats, for tests of what reads, packs and places tasks.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace grove::testing {

struct SmallTask {
  std::string name = "stored";
  std::string title = "t";
  // When not empty, y = x + w and w is this key of the task's file of tensors; else y = x.
  std::string stored;
  int n = 4;
  std::string more = {};  // behind the scored case "full"
};

inline std::string TaskText(const SmallTask& task) {
  const auto tensor = [](std::string_view name, std::string_view role) {
    return fmt::format(
        "[[tensor]]\nname = \"{}\"\nrole = \"{}\"\ndtype = \"f32\"\nshape = [\"n\"]\n", name, role);
  };
  std::string text = fmt::format(
      "name = \"{}\"\ntitle = \"{}\"\nfamily = \"imported\"\ncontract = \"y = x{}\"\n"
      "dims = [\"n\"]\n",
      task.name, task.title, task.stored.empty() ? "" : " + w");
  text += tensor("x", "input");
  if (!task.stored.empty()) {
    text += tensor("w", "input") +
            fmt::format("input = {{ kind = \"file\", key = \"{}\" }}\n", task.stored);
  }
  text += tensor("y", "output");
  text += fmt::format(
      "[[case]]\nname = \"full\"\nrole = \"scored\"\ndims = {{ n = {} }}\nflops = 8\n"
      "reduction = \"n\"\n",
      task.n);
  return text + task.more;
}

}  // namespace grove::testing
