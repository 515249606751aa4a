// SPDX-License-Identifier: Apache-2.0
// Nested iteration, or multilevel initialisation: train a network of few layers, and go on with one of more layers that begins as the same function
// of time. Ref: Cyr, Gunther & Schroder 2019, arXiv 1912.08974.
#pragma once
#include <tw/layer_parallel/layer_parallel.hpp>

namespace torch::optim {
class Optimizer;
}

namespace tw::layer_training {

/// What the layers between those of the smaller network begin with.
enum class Refinement {
  constant,  ///< the layer to whose time step they belong
  linear,    ///< between the middles of time steps, the line
};

/// Sets the parameters and buffers of `fine` from `coarse`: blocks of equal size are copied, larger ones refined. Collective.
/// @param fine the same blocks on the same ranks, ODE blocks with a multiple of the layers.
/// @throws ContractError on ranks that have tensors for which `coarse` has none that fits; RevokedError on the others then
void refine(const layer_parallel::LayerParallel& coarse, layer_parallel::LayerParallel& fine, Refinement refinement = Refinement::constant);

/// The same, and what the optimizer of `coarse` remembers for the optimizer of `fine`, which is of the same kind. Collective.
void refine(const layer_parallel::LayerParallel& coarse, torch::optim::Optimizer& coarse_optimizer, layer_parallel::LayerParallel& fine,
            torch::optim::Optimizer& fine_optimizer, Refinement refinement = Refinement::constant);

}  // namespace tw::layer_training
