// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data/dataset.hpp>

namespace tw::train {

/// A text that differs for other data: the number of training samples and a hash of their content, then the same of the test samples. The hash covers
/// everything that lies in memory (Dataset::memory()), otherwise up to 1024 samples, evenly spread; the text says which. Local.
std::string identity_of(const Dataset& train, const Dataset& test);

}  // namespace tw::train
