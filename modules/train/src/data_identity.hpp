// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <tw/data/dataset.hpp>

namespace tw::train {

/// A text that identifies the data: the number of training samples and a hash of their content, then the same for test and validation samples. The
/// hash covers all data in memory (Dataset::memory()), otherwise up to 1024 evenly spaced samples; the text states which. Local.
/// @param validation null: there is none
std::string identity_of(const Dataset& train, const Dataset& test, const Dataset* validation);

/// A text that depends on the content of the samples `indices` and their order.
std::string hash_of_samples(const Dataset& data, std::span<const int64_t> indices);

/// Whether `identity` includes the validation data; texts of older versions do not.
bool names_validation(const std::string& identity);

/// Whether two identities describe the same data, as far as both specify it.
bool is_same_data(const std::string& a, const std::string& b);

}  // namespace tw::train
