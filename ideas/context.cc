#include "ideas/context.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove::ideas {
namespace {

// Names of the sections of all prompts.
constexpr std::array<std::string_view, 22> kSections = {
    "task",     "device",  "parent",   "lineage",  "tried_here", "tried_elsewhere",
    "hints",    "goal",    "playbook", "request",  "idea",       "rules",
    "reply",    "failure", "failed",   "attempts", "branch",     "proposed",
    "refusals", "ties",    "changes",  "named"};

std::string Size(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.2f} MB", bytes / 1e6);
  return fmt::format("{:.1f} KB", bytes / 1e3);
}

std::string DescribeInput(const seeds::Tensor& tensor) {
  const seeds::Distribution& d = tensor.distribution;
  if (tensor.role != seeds::TensorRole::kInput) return {};
  if (d.kind == seeds::Distribution::Kind::kNormal && d.a == 0 && d.b == 1) return {};
  if (d.kind == seeds::Distribution::Kind::kMatrix) {
    return fmt::format("{} matrices: {}, {:g} decimal orders", tensor.name,
                       seeds::Name(d.structure), d.a);
  }
  if (d.kind == seeds::Distribution::Kind::kFile) {
    return fmt::format("{} always the same (parameters)", tensor.name);
  }
  return fmt::format("{} {}({:g}, {:g})", tensor.name, seeds::Name(d.kind), d.a, d.b);
}

TaskFacts::Case DescribeCase(const seeds::Case& c) {
  TaskFacts::Case facts;
  facts.name = c.name;
  facts.role = seeds::Name(c.role);
  std::vector<std::string> dims, tensors, inputs;
  for (const seeds::Dim& dim : c.dims) dims.push_back(fmt::format("{}={}", dim.name, dim.value));
  for (const seeds::Tensor& t : c.tensors) {
    tensors.push_back(fmt::format("{} {} [{}] {}", t.name, grove::Name(t.dtype),
                                  fmt::join(t.shape, ","),
                                  t.role == seeds::TensorRole::kInput ? "input" : "output"));
    if (std::string input = DescribeInput(t); !input.empty()) inputs.push_back(std::move(input));
  }
  facts.dims = fmt::format("{}", fmt::join(dims, " "));
  facts.tensors = fmt::format("{}", fmt::join(tensors, "; "));
  facts.inputs = fmt::format("{}", fmt::join(inputs, "; "));
  return facts;
}

}  // namespace

TaskFacts DescribeTask(const seeds::Task& task) {
  TaskFacts facts;
  facts.name = task.name;
  facts.title = task.title;
  facts.family = task.family;
  facts.contract = task.contract;
  facts.demanded = seeds::Name(task.demanded);
  facts.library = !task.library.empty();
  for (const bool scored : {true, false}) {
    for (const seeds::Case& c : task.cases) {
      if (c.role == seeds::CaseRole::kExtra) continue;
      if ((c.role == seeds::CaseRole::kScored) == scored) facts.cases.push_back(DescribeCase(c));
    }
  }
  std::vector<std::string> scalars;
  if (!task.cases.empty()) {
    for (const seeds::Scalar& s : task.cases.front().scalars) {
      scalars.push_back(fmt::format("{}={:g} ({})", s.name, s.value, grove::Name(s.dtype)));
    }
  }
  facts.scalars = fmt::format("{}", fmt::join(scalars, " "));
  return facts;
}

std::string_view Name(TriedIdea::Outcome outcome) {
  switch (outcome) {
    case TriedIdea::Outcome::kWin:
      return "win";
    case TriedIdea::Outcome::kTie:
      return "tie";
    case TriedIdea::Outcome::kLoss:
      return "loss";
    case TriedIdea::Outcome::kFailed:
      return "failed";
    case TriedIdea::Outcome::kDuplicate:
      return "duplicate";
  }
  return "unknown";
}

// "1.84x"; near 1, where a hundredth is coarse, "1.004x".
std::string DescribeGain(double gain) {
  return gain > 0.9 && gain < 1.1 ? fmt::format("{:.3f}x", gain) : fmt::format("{:.2f}x", gain);
}

std::string DescribeTried(const TriedIdea& tried) {
  std::string line =
      fmt::format("{} [{}]: {}", tried.title, Name(tried.category), Name(tried.outcome));
  if (tried.gain) line += ", " + DescribeGain(*tried.gain);
  const bool all_listed =
      !tried.implementations.empty() &&
      tried.implementations.size() >= static_cast<std::size_t>(std::max(0, tried.tries));
  if (tried.tries > 1 && !all_listed) {
    line += fmt::format(" ({} implementations: {} compiled, {} correct", tried.tries,
                        tried.compiled, tried.correct);
    if (tried.median_gain && tried.correct > 1) {
      line += ", median " + DescribeGain(*tried.median_gain);
    }
    line += ")";
  }
  if (!tried.note.empty()) line += "; " + tried.note;
  if (!tried.best.empty() && tried.implementations.empty()) line += "; best " + tried.best;
  if (!tried.from.empty()) line += "; from " + tried.from;
  // One line each, whatever the texts hold.
  const auto one_line = [](std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return Shield(text);
  };
  line = one_line(std::move(line));
  for (const std::string& text : tried.implementations) line += "\n  - " + one_line(text);
  return line;
}

std::string Shield(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] != '<') continue;
    std::string_view rest = text.substr(i + 1);
    if (rest.starts_with('/')) rest.remove_prefix(1);
    const bool tag = std::any_of(kSections.begin(), kSections.end(), [&](std::string_view name) {
      return rest.starts_with(name) && rest.substr(name.size()).starts_with('>');
    });
    if (tag) out += ' ';
  }
  return out;
}

std::vector<std::string> ShieldAll(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) lines.push_back(Shield(text));
  return lines;
}

std::string Fenced(std::string_view language, std::string_view text) {
  std::size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(std::max<std::size_t>(3, longest + 1), '`');
  std::string body = Shield(text);
  if (body.empty() || body.back() != '\n') body += '\n';
  return fmt::format("{}{}\n{}{}", fence, language, body, fence);
}

std::vector<std::string> FitLines(const std::vector<std::string>& lines, std::size_t bytes,
                                  bool from_end, std::size_t more) {
  std::size_t used = 0;
  std::size_t count = 0;
  for (; count < lines.size(); ++count) {
    used += lines[from_end ? lines.size() - 1 - count : count].size() + 3;
    if (used > bytes) break;
  }
  if (count == lines.size() && more == 0) return lines;
  const std::string cut =
      fmt::format("({} {} left out: this prompt's size is limited)", lines.size() - count + more,
                  from_end ? "older ones" : "more");
  std::vector<std::string> kept;
  if (from_end) {
    kept.push_back(cut);
    kept.insert(kept.end(), lines.end() - static_cast<std::ptrdiff_t>(count), lines.end());
  } else {
    kept.assign(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(count));
    kept.push_back(cut);
  }
  return kept;
}

std::string FitText(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  // Whole lines, where there are some.
  std::string_view head = text.substr(0, bytes / 2);
  std::string_view tail = text.substr(text.size() - bytes / 2);
  if (const auto end = head.rfind('\n'); end != head.npos) head = head.substr(0, end + 1);
  if (const auto begin = tail.find('\n'); begin != tail.npos) tail = tail.substr(begin + 1);
  return fmt::format("{}\n({} bytes left out: this prompt's size is limited)\n{}", head,
                     text.size() - head.size() - tail.size(), tail);
}

std::string DescribeKernel(const KernelFacts& k) {
  std::vector<std::string> lines;
  const auto us = [](Nanoseconds t) { return t.count() / 1e3; };
  lines.push_back(fmt::format("id: {}", Shield(k.id)));
  if (k.time) {
    lines.push_back(fmt::format("time: {:.3f} us ({})", us(*k.time),
                                k.modelled ? "modelled, not measured" : "measured"));
  }
  if (k.floor) {
    lines.push_back(fmt::format(
        "floor: {:.3f} us (the larger of the least bytes, each input read and each output written "
        "once, at the copy's bandwidth, and the arithmetic at the peak of the precision demanded)",
        us(*k.floor)));
  }
  if (!k.what_counts.empty()) lines.push_back("what counts: " + Shield(k.what_counts));
  if (k.share_of_floor) {
    lines.push_back(fmt::format("share of the floor reached: {:.1f}%", 100 * *k.share_of_floor));
  }
  if (!k.bound.empty()) lines.push_back("bound by: " + Shield(k.bound));
  if (k.registers) lines.push_back(fmt::format("registers per thread: {}", *k.registers));
  if (k.spill_bytes) lines.push_back(fmt::format("spills: {} bytes", *k.spill_bytes));
  if (k.shared_bytes) {
    lines.push_back(fmt::format("shared memory per block: {} bytes", *k.shared_bytes));
  }
  if (k.occupancy) {
    lines.push_back(fmt::format("occupancy: {:.0f}% of the warps{}", 100 * *k.occupancy,
                                k.limiter.empty() ? "" : ", limited by " + Shield(k.limiter)));
  }
  if (!k.precision_class.empty()) {
    lines.push_back("precision class: " + Shield(k.precision_class));
  }
  if (!k.error.empty()) lines.push_back("error: " + Shield(k.error));
  if (k.empty_kernel) {
    lines.push_back(
        fmt::format("an empty kernel timed the same way: {:.3f} us", us(*k.empty_kernel)));
  }
  for (const std::string& line : k.kernels) lines.push_back(Shield(line));
  for (const std::string& line : k.cases) lines.push_back(Shield(line));
  if (!k.counters.empty()) {
    // Of eval/cuda/sass.h.
    const bool counts = k.counters.find(" instructions: ") != std::string::npos;
    lines.push_back(fmt::format(
        "profile{}:\n{}",
        counts ? " (instructions are counted in the machine code, each once, however often it runs)"
               : "",
        Shield(k.counters)));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string DescribeDevice(const DeviceFacts& d) {
  std::string text = fmt::format(
      "name: {}\narchitecture: {}\nSMs: {}\nmemory bandwidth: {:.0f} GB/s (of a large copy, bytes "
      "read and written counted)\n"
      "L2: {:.0f} MB\nshared memory: up to {} per block ({} bytes)",
      d.name, d.arch, d.sm_count, d.memory_gbs, d.l2_mb, Size(d.shared_per_block),
      d.shared_per_block);
  if (d.shared_per_sm > 0) text += fmt::format(", {} bytes per SM", d.shared_per_sm);
  text += fmt::format("\npeak arithmetic, dense: fp32 {:.0f}, tf32 {:.0f}, fp16 and bf16 {:.0f}",
                      d.fp32_tflops, d.tf32_tflops, d.fp16_tflops);
  if (d.fp8_tflops > 0) text += fmt::format(", fp8 {:.0f}", d.fp8_tflops);
  text += " TFLOP/s (fp32 on CUDA cores, the rest on tensor cores";
  if (d.mma_efficiency < 1) {
    text +=
        fmt::format("; mma.sync and wmma reach at most {:.0f}% of that", 100 * d.mma_efficiency);
    if (d.arch.starts_with("sm_9")) text += ", wgmma more";
  }
  text += ")\n";
  if (d.clock_ghz > 0) {
    text += fmt::format("clock: {:.2f} GHz; {:.1f} bytes of memory traffic per SM and cycle\n",
                        d.clock_ghz, d.memory_gbs / d.clock_ghz / std::max(1, d.sm_count));
  }
  text += fmt::format(
      "registers: {} per SM, at most 255 per thread; {} threads and {} blocks per SM, 1024 threads "
      "per block; warps of 32\n",
      d.registers_per_sm, d.threads_per_sm, d.blocks_per_sm);
  if (d.arch.starts_with("sm_9")) {
    text +=
        "instructions beyond the older ones: cp.async, TMA (cp.async.bulk, tensor maps), mbarrier, "
        "wgmma, clusters of up to 8 blocks with distributed shared memory, "
        "setmaxnreg, programmatic dependent launch\n";
  }
  text +=
      "memory is moved in sectors of 32 bytes, lines of 128; a thread loads up to 16 bytes at "
      "once; shared memory has 32 banks of 4 bytes\n";
  if (d.modelled) return text + "times: modelled from an emulation of the compiled kernel";
  return text +
         "times: measured on the device, with a cold L2: twice its size has just been written, so "
         "it is full of foreign dirty lines, and what the program leaves dirty in it at its end is "
         "not waited for\nwhat launches cost: each further one 1 to 2 us of idle device between "
         "them, about 1 where it is dependent and short, about 1 for each workspace that is "
         "cleared";
}

std::string DescribeTaskLines(const TaskFacts& task) {
  std::string text =
      fmt::format("name: {}\ntitle: {}\nfamily: {}\nprecision demanded: {}\n", Shield(task.name),
                  Shield(task.title), Shield(task.family), Shield(task.demanded));
  if (!task.scalars.empty()) text += fmt::format("scalars: {}\n", Shield(task.scalars));
  text +=
      "inputs are drawn from normal(0, 1), afresh each time, where a case does not say otherwise\n";
  for (const TaskFacts::Case& c : task.cases) {
    text += fmt::format("case {} ({}): {}; {}{}{}{}{}\n", Shield(c.name), c.role, c.dims,
                        Shield(c.tensors), c.inputs.empty() ? "" : "; drawn ", Shield(c.inputs),
                        c.allowed.empty() ? "" : "; allowed ", c.allowed);
  }
  text += "contract:\n" + Shield(task.contract);
  if (text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace grove::ideas
