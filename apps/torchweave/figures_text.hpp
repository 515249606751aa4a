// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>
#include <tw/train/report.hpp>

namespace tw::tool {

/// "loss 0.1234, accuracy 0.97".
inline std::string figures_text(const train::Figures& figures) {
  std::string text;
  for (const auto& [name, value] : figures) text += concat(text.empty() ? "" : ", ", name, ' ', brief_text(value, 6));
  return text;
}

}  // namespace tw::tool
