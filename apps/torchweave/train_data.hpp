// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/data/dataset.hpp>
#include <vector>

#include "train_config.hpp"

namespace tw::tool {

struct TrainData {
  std::shared_ptr<const Dataset> train_set;
  std::shared_ptr<const Dataset> validation_set;  ///< decides about early stopping, the best model and a search; null: none
  std::shared_ptr<const Dataset> test_set;
  std::vector<std::shared_ptr<const Dataset>> opened;  ///< the complete data sets, as the files hold them; the sets above may be parts of them

  /// The same data with an empty test set, for callers that must not use it.
  TrainData without_test_set() const;
};

/// Opens the data. Each call holds out the same samples. @throws Error that names the file, or if no samples are left for training
TrainData open_data(const DataOptions& options);

}  // namespace tw::tool
