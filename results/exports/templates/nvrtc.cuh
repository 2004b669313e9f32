// --- how the kernel is compiled ------------------------------------------------------------------
// By NVRTC when it is first used on a device: the text and the options of the run that it is from, so
// the same machine code where the version is the same. NVRTC and its headers are those of $CUDA_HOME,
// of the toolkit that this was compiled with, of /usr/local/cuda or of the loader's path.
namespace grove_plan {

// The folders of headers that the first of these toolkits has. CCCL's (cooperative_groups.h includes its
// nv/target) may be missing there, since Python's wheels keep the two apart: then of the first that has them.
inline std::vector<std::string> HeaderFolders(const std::vector<std::string>& toolkits) {
  const auto find = [&](std::initializer_list<const char*> folders, const char* file) -> std::string {
    for (const std::string& toolkit : toolkits) {
      for (const char* folder : folders) {
        if (!toolkit.empty() && access((toolkit + folder + file).c_str(), R_OK) == 0) return toolkit + folder;
      }
    }
    return "";
  };
  const std::string own = find({"/include", "/targets/x86_64-linux/include", "/targets/sbsa-linux/include",
                                "/../cuda_runtime/include"}, "/cuda_fp16.h");
  if (own.empty()) return {};
  for (const std::string& folder : {own + "/cccl", own}) {
    if (access((folder + "/nv/target").c_str(), R_OK) == 0) return {own, own + "/cccl"};
  }
  const std::string cccl = find({"/include/cccl", "/targets/x86_64-linux/include/cccl", "/targets/sbsa-linux/include/cccl",
                                 "/../cuda_cccl/include", "/include"}, "/nv/target");
  if (cccl.empty()) return {own};
  return {own, cccl};
}

class Nvrtc {
 public:
  // Loaded once, never unloaded.
  static const Nvrtc& Get() {
    static const Nvrtc nvrtc;
    return nvrtc;
  }

  std::string Version() const { return "NVRTC " + std::to_string(major_) + "." + std::to_string(minor_); }

  // Machine code for "sm_90a". Headers are names and texts.
  std::string Compile(const std::string& text, const std::string& architecture,
                      const std::vector<std::pair<const char*, const char*>>& headers) const {
    std::vector<std::string> options = {"--gpu-architecture=" + architecture, @@OPTIONS@@};
    if (major_ >= 13) options.push_back("--no-cache");
    for (const std::string& folder : includes_) options.push_back("-I" + folder);
    std::vector<const char*> arguments, names, texts;
    for (const std::string& option : options) arguments.push_back(option.c_str());
    for (const auto& header : headers) {
      names.push_back(header.first);
      texts.push_back(header.second);
    }
    void* program = nullptr;
    Succeed(create_(&program, text.c_str(), "kernel.cu", static_cast<int>(names.size()), texts.data(), names.data()),
            "nvrtcCreateProgram");
    const int code = compile_(program, static_cast<int>(arguments.size()), arguments.data());
    if (code != 0) {
      throw std::runtime_error(Version() + " for " + architecture + ": " + error_(code) + "\n" +
                               Fetch(program, log_size_, log_).c_str() + Headers());
    }
    const std::string machine_code = Fetch(program, cubin_size_, cubin_);
    destroy_(&program);
    return machine_code;
  }

 private:
  Nvrtc() {
    const std::string version = std::to_string(CUDART_VERSION / 1000);
    const std::string name = "libnvrtc.so." + version;
    std::vector<std::string> roots;
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
      if (const char* value = std::getenv(variable)) roots.push_back(value);
    }
#ifdef GROVE_CUDA_HOME
    roots.push_back(GROVE_CUDA_HOME);
#endif
    roots.push_back("/usr/local/cuda");
    for (const std::string& root : roots) {
      for (const char* folder : {"/lib64/", "/lib/", "/targets/x86_64-linux/lib/", "/targets/sbsa-linux/lib/"}) {
        if (library_ == nullptr && !root.empty()) Open(root + folder, name, version);
      }
    }
    if (library_ == nullptr) library_ = dlopen(name.c_str(), RTLD_NOW);
    if (library_ == nullptr) {
      throw std::runtime_error(name + " is neither in CUDA_HOME, /usr/local/cuda nor on the loader's path: install "
                               "the CUDA toolkit, or export the kernel with --compiler nvcc");
    }
    Find(error_, "nvrtcGetErrorString");
    Find(version_, "nvrtcVersion");
    Find(create_, "nvrtcCreateProgram");
    Find(destroy_, "nvrtcDestroyProgram");
    Find(compile_, "nvrtcCompileProgram");
    Find(log_size_, "nvrtcGetProgramLogSize");
    Find(log_, "nvrtcGetProgramLog");
    Find(cubin_size_, "nvrtcGetCUBINSize");
    Find(cubin_, "nvrtcGetCUBIN");
    Succeed(version_(&major_, &minor_), "nvrtcVersion");
    // The headers beside the library first: of one version with it.
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void*>(version_), &info) != 0 && info.dli_fname != nullptr) {
      const std::string path = info.dli_fname;
      roots.insert(roots.begin(), path.substr(0, path.find_last_of('/')) + "/..");
    }
    roots.push_back("/usr");
    includes_ = HeaderFolders(roots);
  }

  // Where headers were looked for, behind the compiler's complaint about one.
  std::string Headers() const {
    if (includes_.empty()) return "(no toolkit's headers were found: set CUDA_HOME to a CUDA toolkit)\n";
    std::string text = "(headers of";
    for (const std::string& folder : includes_) text += " " + folder;
    if (includes_.size() == 1) {
      text += "; no nv/target, which cooperative_groups.h needs: set CUDA_HOME to a whole CUDA toolkit, or install "
              "the package nvidia-cuda-cccl";
    }
    return text + ")\n";
  }

  void Open(const std::string& folder, const std::string& name, const std::string& version) {
    if (access((folder + name).c_str(), R_OK) != 0) return;
    // NVRTC loads its builtins by their bare name, which the loader may not find in this folder.
    for (int minor = 0; minor < 20; ++minor) {
      dlopen((folder + "libnvrtc-builtins.so." + version + "." + std::to_string(minor)).c_str(), RTLD_NOW);
    }
    library_ = dlopen((folder + name).c_str(), RTLD_NOW);
  }
  template <class Function>
  void Find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("NVRTC has no ") + name);
  }
  void Succeed(int code, const char* what) const {
    if (code != 0) throw std::runtime_error(std::string(what) + ": " + error_(code));
  }
  std::string Fetch(void* program, int (*size_of)(void*, size_t*), int (*get)(void*, char*)) const {
    size_t size = 0;
    Succeed(size_of(program, &size), "NVRTC's output");
    std::string bytes(size, '\0');
    Succeed(get(program, &bytes[0]), "NVRTC's output");
    return bytes;
  }

  void* library_ = nullptr;
  int major_ = 0, minor_ = 0;
  std::vector<std::string> includes_;
  const char* (*error_)(int) = nullptr;
  int (*version_)(int*, int*) = nullptr;
  int (*create_)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*log_size_)(void*, size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*cubin_size_)(void*, size_t*) = nullptr;
  int (*cubin_)(void*, char*) = nullptr;
};

// What NVRTC is given, for all cases.
struct Text {
  const char* source;
  std::vector<std::pair<const char*, const char*>> headers;  // beside the toolkit's: names and texts
  std::vector<const char*> kernels;
};

// The kernels of one case: its constants in front of the source. Thread-safe.
class Kernels {
 public:
  Kernels(const Text& text, const char* prelude) : state_(std::make_shared<State>(text, prelude)) {}

  // Compiles at the first call on a device.
  const void* operator[](int index) const {
    int device = 0;
    Check(cudaGetDevice(&device), "cudaGetDevice");
    const std::lock_guard<std::mutex> lock(state_->mutex);
    std::vector<const void*>& functions = state_->functions[device];
    if (functions.empty()) functions = Load(device);
    return functions[static_cast<size_t>(index)];
  }

 private:
  struct State {
    State(const Text& t, const char* p) : text(t), prelude(p) {}
    const Text& text;
    const char* prelude;
    std::mutex mutex;
    std::map<int, std::vector<const void*>> functions;
  };

  std::vector<const void*> Load(int device) const {
    int major = 0, minor = 0;
    Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
    Check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
    // The chip's own instructions (wgmma, setmaxnreg) need the suffix.
    const std::string architecture =
        "sm_" + std::to_string(major) + std::to_string(minor) + (major >= 9 ? "a" : "");
    const std::string code = Nvrtc::Get().Compile(std::string(state_->prelude) + state_->text.source, architecture,
                                                  state_->text.headers);
    Check(cudaFree(nullptr), "the device's context");
    CUmodule module = nullptr;
    CheckDriver(Driver<decltype(&cuModuleLoadData)>("cuModuleLoadData")(&module, code.data()), "cuModuleLoadData");
    std::vector<const void*> functions;
    for (const char* name : state_->text.kernels) {
      CUfunction function = nullptr;
      CheckDriver(Driver<decltype(&cuModuleGetFunction)>("cuModuleGetFunction")(&function, module, name), name);
      functions.push_back(function);
    }
    return functions;
  }

  std::shared_ptr<State> state_;
};

}  // namespace grove_plan
