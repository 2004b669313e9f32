// The files of templates/, as strings; made by CMake (report/embed.cmake). Internal to exports/.
#pragma once

#include <string_view>

namespace grove::results::asset {
extern const std::string_view kExportRuntime;
extern const std::string_view kExportLaunchNvcc;
extern const std::string_view kExportLaunchDriver;
extern const std::string_view kExportNvrtc;
extern const std::string_view kExportMain;
extern const std::string_view kExportCheckReference;
extern const std::string_view kExportCheckQr;
extern const std::string_view kExportTorchApi;
extern const std::string_view kExportTorchTail;
extern const std::string_view kExportTorchBinding;
extern const std::string_view kExportTorchInline;
extern const std::string_view kExportTorchBuildNvrtc;
extern const std::string_view kExportTorchBuildNvcc;
extern const std::string_view kExportKernelBenchTail;
extern const std::string_view kExportGpuModeTail;
extern const std::string_view kExportSetupNvrtc;
extern const std::string_view kExportSetupNvcc;
extern const std::string_view kExportModuleTail;
extern const std::string_view kExportCupy;
}  // namespace grove::results::asset
