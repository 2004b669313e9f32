// A mailbox: each request becomes a file that a person or another program answers with a file. For
// machines without a network, for people, for agents of any kind.
//
//   FOLDER/0001.prompt.md   written by us, whole, never changed: a header, then the messages
//   FOLDER/0001.reply.md    the answer, by anybody, in any order
//   FOLDER/0001.withdrawn   nobody waits for the answer now: the run stopped, or was resumed and
//                           asks something else. Asked again, the prompt waits again.
//
// A reply is taken when its last line is the closing line that the prompt shows, and not before.
// The rejected alternative, taking a file as soon as it is there, needs writers that rename; the
// line works from an editor, over a network folder and with `cat >>`, and a program killed while it
// writes leaves nothing that looks complete. It is another one for every prompt, so that an answer
// in another prompt's file is not taken for that prompt's. Numbers only count up; a request is
// found again by the hash in the header, so a restarted run waits for the files that it wrote
// before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "llm/client.h"

namespace grove::llm {

// The closing line of an answer to the request with this hash: "<!-- end of reply to 540986f4 -->".
std::string EndOfReply(std::string_view hash);

// A client over `folder`, which the first request creates. Thread-safe; several processes may share
// the folder. `clock` must outlive it. Complete waits as long as it takes, looking every 200 ms,
// and writes nothing while it waits. Usage is estimated, the model is "mailbox". The same request
// asked again (role, seed, max_tokens, messages, stop) gets the same file and its reply. A reply
// longer than max_tokens by our estimate is taken whole: nothing was paid for it. What is no UTF-8
// in a reply is replaced; one above 16 MiB is refused (kInvalidInput). `log` is told, on the
// caller's thread, of every prompt that begins to wait and in which file its answer belongs, of a
// reply that has stood for 5 s without its closing line or that closes as another prompt's, and of
// each that was taken.
using MailboxLog = std::function<void(std::string_view)>;
std::unique_ptr<Client> MakeMailboxClient(std::filesystem::path folder, const Clock& clock,
                                          MailboxLog log = {});

struct MailboxEntry {
  int number = 0;
  std::filesystem::path prompt;
  std::filesystem::path reply;
  std::string role;      // "code"; as the header says
  std::string hash;      // of the request
  std::string end;       // the closing line that it asks for
  bool started = false;  // there is a reply without it
  bool withdrawn = false;
};
// The prompts without a complete reply, oldest first. An absent folder has none. kUnavailable when
// the folder cannot be read.
Result<std::vector<MailboxEntry>> ListWaiting(const std::filesystem::path& folder);

// Whether the reply in `path` would be taken for a request of `role` whose closing line is `end`,
// and would be of use: complete, not empty, and in the form asked for (ideas: one JSON object with
// "ideas"; code: a
// ```cuda and a
// ```json block, or an ```edit block). kNotFound: no such file; kInvalidInput says what is missing.
Status CheckReply(Role role, std::string_view end, const std::filesystem::path& path);

// The text of a complete reply, without its closing line `end`; nothing when that is not (yet)
// there.
std::optional<std::string> CompleteReply(std::string_view file, std::string_view end);

// What the prompt in a mailbox's file says of itself. kNotFound: there is none.
Result<MailboxEntry> ReadMailboxEntry(const std::filesystem::path& prompt);

// What a reply of `role` has to look like, for a person.
std::string_view FormOf(Role role);
// The role that a prompt's header names. kInvalidInput for another word.
Result<Role> RoleFrom(std::string_view name);

}  // namespace grove::llm
