// SPDX-License-Identifier: Apache-2.0
// Residual histories of an independent code, in reference/cases.json.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tw::layer_parallel {

inline nlohmann::json reference_cases() {
  std::ifstream file(TW_REFERENCE "/cases.json");
  return nlohmann::json::parse(file);
}

/// Compares to a relative 1e-10 where norms are above 1e-12; below that, rounding errors dominate.
inline void expect_histories_agree(const std::vector<std::optional<double>>& ours, const nlohmann::json& reference, const std::string& name) {
  ASSERT_EQ(ours.size(), reference.size()) << name;
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].has_value(), !reference[i].is_null()) << name << ", iteration " << i;
    if (!ours[i]) continue;
    const double expected = reference[i].get<double>();
    EXPECT_NEAR(*ours[i], expected, 1e-10 * expected + 1e-12) << name << ", iteration " << i;
  }
}

}  // namespace tw::layer_parallel
