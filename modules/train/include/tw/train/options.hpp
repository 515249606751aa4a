// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace tw::train {

struct Options {
  std::string name = "run";  ///< the run's folder is output / name
  std::filesystem::path output = "runs";
  int64_t epochs = 1;
  int64_t batch_size = 64;  ///< samples of one rank in one step
  int64_t seed = 0;         ///< of the order of samples

  /// @throws ContractError naming the wrong field.
  void validate() const;
};

}  // namespace tw::train
