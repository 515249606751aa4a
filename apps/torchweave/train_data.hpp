// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/data/dataset.hpp>
#include <vector>

#include "train_config.hpp"

namespace tw::tool {

struct TrainData {
  std::shared_ptr<const Dataset> train_set;
  std::shared_ptr<const Dataset> validation_set;  ///< whatever is decided, is decided by this one; null: none
  std::shared_ptr<const Dataset> test_set;
  std::vector<std::shared_ptr<const Dataset>> opened;  ///< those that these are parts of, as the files hold them

  /// The same with an empty test set, for what must not look at it.
  TrainData without_test_set() const;
};

/// The same samples validate at each call. @throws Error naming the file, or that nothing is left to train
TrainData open_data(const DataOptions& options);

}  // namespace tw::tool
