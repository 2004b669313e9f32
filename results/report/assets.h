// The page's parts, embedded when grove is built (embed.cmake). Inside of results/report only.
#pragma once

#include <string_view>

namespace grove::results::asset {

// Our own, from assets/.
extern const std::string_view kStyle, kBody, kBase, kModel, kCharts, kTree, kKernel, kViews, kLive,
    kApp;
// Debian's packages, and the licences that they ask to be passed on.
extern const std::string_view kD3, kPrismCore, kPrismClike, kPrismC, kPrismCpp, kDiff, kLicences;

}  // namespace grove::results::asset
