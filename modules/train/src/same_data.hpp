// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data/dataset.hpp>
#include <tw/train/model.hpp>

#include "ranks.hpp"

namespace tw::train {

/// Compares the first, middle and last samples that the ranks read. Collective over all. @param name for the message, such as "training"
/// @throws ContractError on every rank if ranks have different samples, or if several ranks of one model read samples that change from one reading to
/// the next
void expect_same_data(const Ranks& ranks, const Model& model, const char* name, const Dataset& data);

}  // namespace tw::train
