// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data/dataset.hpp>

namespace tw::train {

/// A text that differs for other data: the number of training samples and a hash of their content, then the same of the test and validation samples.
/// The hash covers everything that lies in memory (Dataset::memory()), otherwise up to 1024 samples, evenly spread; the text says which. Local.
/// @param validation null: there is none
std::string identity_of(const Dataset& train, const Dataset& test, const Dataset* validation);

/// Whether such a text says what is validated on; those of older versions do not.
bool names_validation(const std::string& identity);

/// Whether two such texts are of the same data, as far as both say what they are.
bool is_same_data(const std::string& a, const std::string& b);

}  // namespace tw::train
