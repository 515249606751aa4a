// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data/dataset.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>

namespace tw::train {

/// Whether all of it is, sparse or not.
bool is_finite(const at::Tensor& gradient);

/// Which rank's loss and which parameters' gradients are not finite, in words, the same on all ranks. Collective. Runs this rank's batch once more
/// and takes gradients that no one reduces, since the reduced ones do not say where they come from.
std::string find_non_finite(const Communicator& comm, const Model& model, const Objective& objective, const Batch& batch);

}  // namespace tw::train
