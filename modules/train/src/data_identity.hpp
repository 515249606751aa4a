// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data/dataset.hpp>

namespace tw::train {

/// What tells a run's data from others: sizes, and the content of a few samples, such as "60000 and 10000 samples, 1f3a2b". Local.
std::string identity_of(const Dataset& train, const Dataset& test);

}  // namespace tw::train
