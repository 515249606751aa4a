// SPDX-License-Identifier: Apache-2.0
// What the key data.validation says.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "train_config.hpp"

namespace tw::tool {

/// Which samples validate: a share of the training set, or a number of its samples, or the training part of another folder.
struct Validation {
  double share = 0;
  int64_t count = 0;
  std::filesystem::path folder = {};

  bool is_there() const { return share > 0 || count > 0 || !folder.empty(); }
  /// How many of `samples` are held out: of two or more at least one, and not all. 0 where a folder validates.
  /// @throws Error when nothing would be left to train
  int64_t held_out(int64_t samples) const;
};

/// "" where nothing is wrong with the key.
std::string problem_of_validation(const DataOptions& data);

/// @param data without a problem
Validation validation_of(const DataOptions& data);

}  // namespace tw::tool
