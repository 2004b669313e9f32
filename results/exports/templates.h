// The files of templates/, as strings; made by CMake (report/embed.cmake). Internal to exports/.
#pragma once

#include <string_view>

namespace grove::results::asset {
extern const std::string_view kExportRuntime;
extern const std::string_view kExportMain;
extern const std::string_view kExportCheckReference;
extern const std::string_view kExportCheckQr;
extern const std::string_view kExportTorchApi;
extern const std::string_view kExportTorchTail;
extern const std::string_view kExportTorchBinding;
extern const std::string_view kExportTorchInline;
extern const std::string_view kExportKernelBenchTail;
extern const std::string_view kExportGpuModeTail;
extern const std::string_view kExportSetup;
extern const std::string_view kExportModuleTail;
extern const std::string_view kExportCupy;
}  // namespace grove::results::asset
