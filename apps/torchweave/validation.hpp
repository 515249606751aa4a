// SPDX-License-Identifier: Apache-2.0
// The value of the key data.validation.
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
  /// The number of `samples` that are held out: of two or more samples at least one, and never all. 0 if a folder validates.
  /// @throws Error if no samples would be left for training
  int64_t held_out(int64_t samples) const;
};

/// The problem of the value, for Problem::what; empty if the value is valid.
std::string problem_of_validation(const DataOptions& data);

/// @param data must be valid, see problem_of_validation()
Validation validation_of(const DataOptions& data);

}  // namespace tw::tool
