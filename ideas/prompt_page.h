// A prompt template of a file: mustache, read and parsed when it is first rendered and then kept,
// so that a run says the same from its first prompt to its last, whatever becomes of the file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::ideas {

// What a page shows, by name. Texts are shown as they are; who writes them shields them.
// Thread-compatible.
class PromptFields {
 public:
  PromptFields();
  ~PromptFields();
  PromptFields(PromptFields&&) noexcept;
  PromptFields& operator=(PromptFields&&) noexcept;

  void SetText(const std::string& name, std::string text);  // {{name}}
  void SetShown(const std::string& name, bool shown);       // {{#name}}...{{/name}}
  // {{#name}}{{.}}{{/name}}, with has_name for the frame around it.
  void SetLines(const std::string& name, const std::vector<std::string>& lines);

 private:
  friend class PromptPage;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Thread-safe.
class PromptPage {
 public:
  // `name` is the file's, without ".mustache". Each of `parts` is the name of another one of the
  // folder, which stands where the page, or a part before it, has {{>part}}.
  PromptPage(std::filesystem::path folder, std::string name, std::vector<std::string> parts = {});
  ~PromptPage();
  PromptPage(PromptPage&&) noexcept;
  PromptPage& operator=(PromptPage&&) noexcept;

  // kNotFound when a file is not there, kInvalidInput when it is broken; each names the file.
  Result<std::string> Render(const PromptFields& fields) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grove::ideas
