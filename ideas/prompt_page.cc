#include "ideas/prompt_page.h"

#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include "base/files.h"

namespace grove::ideas {
namespace {

namespace mustache = kainjow::mustache;

constexpr std::uintmax_t kMaxTemplate = 1 << 20;  // bytes

Result<std::string> ReadTemplate(const std::filesystem::path& folder, const std::string& name) {
  auto text = ReadFile(folder / (name + ".mustache"), kMaxTemplate);
  if (!text) return Fail(std::move(text.error()), "prompt template");
  return text;
}

}  // namespace

struct PromptFields::Impl {
  mustache::data data;
};

PromptFields::PromptFields() : impl_(std::make_unique<Impl>()) {}
PromptFields::~PromptFields() = default;
PromptFields::PromptFields(PromptFields&&) noexcept = default;
PromptFields& PromptFields::operator=(PromptFields&&) noexcept = default;

void PromptFields::SetText(const std::string& name, std::string text) {
  impl_->data.set(name, std::move(text));
}

void PromptFields::SetShown(const std::string& name, bool shown) { impl_->data.set(name, shown); }

void PromptFields::SetLines(const std::string& name, const std::vector<std::string>& lines) {
  mustache::data list{mustache::data::type::list};
  for (const std::string& line : lines) list.push_back(mustache::data(line));
  impl_->data.set(name, std::move(list));
  SetShown("has_" + name, !lines.empty());
}

struct PromptPage::Impl {
  std::filesystem::path folder;
  std::string name;
  std::vector<std::string> parts;
  std::mutex mutex;
  std::optional<mustache::mustache> page;  // GUARDED_BY(mutex); rendering may write to it

  Status Read() {
    auto text = ReadTemplate(folder, name);
    if (!text) return Failure(std::move(text.error()));
    for (const std::string& part : parts) {
      auto other = ReadTemplate(folder, part);
      if (!other) return Failure(std::move(other.error()));
      // The tag's own line ends it.
      if (other->ends_with('\n')) other->pop_back();
      const std::string tag = "{{>" + part + "}}";
      for (auto at = text->find(tag); at != text->npos; at = text->find(tag, at + other->size())) {
        text->replace(at, tag.size(), *other);
      }
    }
    page.emplace(*text);
    page->set_custom_escape([](const std::string& s) { return s; });
    return {};
  }
};

PromptPage::PromptPage(std::filesystem::path folder, std::string name,
                       std::vector<std::string> parts)
    : impl_(std::make_unique<Impl>()) {
  impl_->folder = std::move(folder);
  impl_->name = std::move(name);
  impl_->parts = std::move(parts);
}
PromptPage::~PromptPage() = default;
PromptPage::PromptPage(PromptPage&&) noexcept = default;
PromptPage& PromptPage::operator=(PromptPage&&) noexcept = default;

Result<std::string> PromptPage::Render(const PromptFields& fields) const {
  const std::scoped_lock lock(impl_->mutex);
  if (!impl_->page) {
    if (Status read = impl_->Read(); !read) return Failure(std::move(read.error()));
  }
  std::string text;
  if (impl_->page->is_valid()) {
    impl_->page->render(fields.impl_->data, [&](const std::string& piece) { text += piece; });
  }
  if (!impl_->page->is_valid()) {
    std::string why = impl_->page->error_message();
    impl_->page.reset();
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("prompt template {}.mustache: {}", impl_->name, why));
  }
  return text;
}

}  // namespace grove::ideas
