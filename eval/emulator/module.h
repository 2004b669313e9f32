// What Module is inside: the decoded program.
#pragma once

#include "eval/emulator/machine.h"

namespace grove::emulator {

class Module {
 public:
  explicit Module(Program program) : program_(std::move(program)) {}
  const Program& program() const { return program_; }

 private:
  Program program_;
};

}  // namespace grove::emulator
