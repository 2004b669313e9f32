#include "codegen/compile_sandbox.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <seccomp.h>

#include "base/process.h"

namespace grove::codegen {
namespace {

// Every right of version 1 of the interface: what is not granted below is refused.
constexpr std::uint64_t kAllRights =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
    LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM;

// True when in force; false when the kernel has no Landlock.
bool RestrictFiles(const Sandbox& sandbox) {
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = kAllRights;
  const FileDescriptor rules(static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0)));
  if (!rules) return false;
  for (const std::filesystem::path& folder : sandbox.readable) {
    const FileDescriptor at(::open(folder.c_str(), O_PATH | O_CLOEXEC));
    if (!at) continue;  // a folder that is not there grants nothing
    landlock_path_beneath_attr beneath{};
    beneath.allowed_access =
        LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
    beneath.parent_fd = at.get();
    ::syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
  }
  return ::syscall(SYS_landlock_restrict_self, rules.get(), 0) == 0;
}

struct FilterRelease {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};

constexpr int kRefused[] = {SCMP_SYS(socket),
                            SCMP_SYS(socketpair),
                            SCMP_SYS(connect),
                            SCMP_SYS(bind),
                            SCMP_SYS(accept),
                            SCMP_SYS(accept4),
                            SCMP_SYS(listen),
                            SCMP_SYS(execve),
                            SCMP_SYS(execveat),
                            SCMP_SYS(fork),
                            SCMP_SYS(vfork),
                            SCMP_SYS(creat),
                            SCMP_SYS(openat2),
                            SCMP_SYS(unlink),
                            SCMP_SYS(unlinkat),
                            SCMP_SYS(rename),
                            SCMP_SYS(renameat),
                            SCMP_SYS(renameat2),
                            SCMP_SYS(link),
                            SCMP_SYS(linkat),
                            SCMP_SYS(symlink),
                            SCMP_SYS(symlinkat),
                            SCMP_SYS(mkdir),
                            SCMP_SYS(mkdirat),
                            SCMP_SYS(rmdir),
                            SCMP_SYS(mknod),
                            SCMP_SYS(mknodat),
                            SCMP_SYS(chmod),
                            SCMP_SYS(fchmod),
                            SCMP_SYS(fchmodat),
                            SCMP_SYS(chown),
                            SCMP_SYS(fchown),
                            SCMP_SYS(lchown),
                            SCMP_SYS(fchownat),
                            SCMP_SYS(truncate),
                            SCMP_SYS(ftruncate),
                            SCMP_SYS(fallocate),
                            SCMP_SYS(utime),
                            SCMP_SYS(utimes),
                            SCMP_SYS(utimensat),
                            SCMP_SYS(setxattr),
                            SCMP_SYS(lsetxattr),
                            SCMP_SYS(fsetxattr),
                            SCMP_SYS(removexattr),
                            SCMP_SYS(ptrace),
                            SCMP_SYS(process_vm_readv),
                            SCMP_SYS(process_vm_writev),
                            SCMP_SYS(pidfd_open),
                            SCMP_SYS(pidfd_getfd),
                            SCMP_SYS(pidfd_send_signal),
                            SCMP_SYS(mount),
                            SCMP_SYS(umount2),
                            SCMP_SYS(pivot_root),
                            SCMP_SYS(chroot),
                            SCMP_SYS(unshare),
                            SCMP_SYS(setns),
                            SCMP_SYS(init_module),
                            SCMP_SYS(finit_module),
                            SCMP_SYS(delete_module),
                            SCMP_SYS(kexec_load),
                            SCMP_SYS(bpf),
                            SCMP_SYS(perf_event_open),
                            SCMP_SYS(userfaultfd),
                            SCMP_SYS(keyctl),
                            SCMP_SYS(add_key),
                            SCMP_SYS(request_key),
                            SCMP_SYS(io_uring_setup),
                            SCMP_SYS(memfd_create),
                            SCMP_SYS(setuid),
                            SCMP_SYS(setgid),
                            SCMP_SYS(setresuid),
                            SCMP_SYS(setresgid),
                            SCMP_SYS(reboot),
                            SCMP_SYS(personality),
                            SCMP_SYS(sethostname),
                            SCMP_SYS(msgget),
                            SCMP_SYS(shmget),
                            SCMP_SYS(semget),
                            SCMP_SYS(mq_open),
                            SCMP_SYS(name_to_handle_at),
                            SCMP_SYS(open_by_handle_at)};

constexpr std::uint64_t kWriting[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND};

Failure Unable(std::string_view call, int error) {
  return Fail(ErrorCode::kUnavailable,
              fmt::format("the compiler's process cannot be confined: {}: {}", call,
                          std::strerror(error < 0 ? -error : error)));
}

Status RestrictCalls() {
  const std::unique_ptr<void, FilterRelease> filter(::seccomp_init(SCMP_ACT_ALLOW));
  if (filter == nullptr) return Unable("seccomp_init", ENOMEM);
  const std::uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  for (const int call : kRefused) {
    // A call that this architecture does not have needs no rule.
    if (call < 0) continue;
    const int added = ::seccomp_rule_add_array(filter.get(), refuse, call, 0, nullptr);
    if (added < 0) return Unable("a seccomp rule", added);
  }
  const auto add = [&](std::uint32_t action, int call, scmp_arg_cmp condition) {
    return call < 0 ? 0 : ::seccomp_rule_add_array(filter.get(), action, call, 1, &condition);
  };
  int rc = 0;
  for (const std::uint64_t flag : kWriting) {
    if (rc == 0) rc = add(refuse, SCMP_SYS(openat), {2, SCMP_CMP_MASKED_EQ, flag, flag});
    if (rc == 0) rc = add(refuse, SCMP_SYS(open), {1, SCMP_CMP_MASKED_EQ, flag, flag});
  }
  // Threads, no processes. The C library falls back from clone3, whose flags no filter can read.
  if (rc == 0) rc = add(refuse, SCMP_SYS(clone), {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0});
  if (rc == 0) {
    rc = ::seccomp_rule_add_array(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0,
                                  nullptr);
  }
  // Signals to ourselves only.
  const auto self = static_cast<std::uint64_t>(::getpid());
  for (const int call : {SCMP_SYS(kill), SCMP_SYS(tgkill)}) {
    if (rc == 0) rc = add(refuse, call, {0, SCMP_CMP_NE, self, 0});
  }
  if (rc == 0) {
    rc = ::seccomp_rule_add_array(filter.get(), refuse, SCMP_SYS(tkill), 0, nullptr);
  }
  // Threads that there are already (the one that watches the channel) are bound as well.
  if (rc == 0) rc = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  if (rc < 0) return Unable("a seccomp rule", rc);
  if (rc = ::seccomp_load(filter.get()); rc < 0) return Unable("seccomp_load", rc);
  return {};
}

}  // namespace

Result<SandboxState> EnterSandbox(const Sandbox& sandbox) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Unable("prctl", errno);
  SandboxState state;
  state.files = RestrictFiles(sandbox);
  if (auto done = RestrictCalls(); !done) return Failure(std::move(done.error()));
  state.syscalls = true;
  return state;
}

}  // namespace grove::codegen
