// Where the files that the program reads at run time are: tasks, prompt templates, the playbook.
#pragma once

#include <filesystem>
#include <string_view>

namespace grove {

// The folder of one kind of files: "tasks", "prompts/ideas", "prompts/codegen",
// "playbook", "prices", "new_task", "gauntlet" or "gallery".
// The first that exists of $GROVE_SHARE/KIND, ../share/grove/KIND beside the binary's folder,
// share/grove/KIND beside the binary, and the source tree that the program was built from. When
// none exists, the installed place (../share/grove/KIND), so that an error names where it should
// be.
std::filesystem::path ShareFolder(std::string_view kind);

}  // namespace grove
