// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>
#include <tw/train/report.hpp>

namespace tw::tool {

/// "loss 0.1234, accuracy 0.97".
inline std::string figures_text(const train::Figures& figures) {
  return joined(figures, ", ", [](const auto& figure) { return concat(figure.first, ' ', brief_text(figure.second, 6)); });
}

}  // namespace tw::tool
