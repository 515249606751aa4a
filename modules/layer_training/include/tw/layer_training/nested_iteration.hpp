// SPDX-License-Identifier: Apache-2.0
// Nested iteration, or multilevel initialisation: train a network of few layers, then continue with a network of more layers, whose parameters start
// as the same function of time. Ref: Cyr, Gunther & Schroder 2019, arXiv 1912.08974.
#pragma once
#include <tw/layer_parallel/layer_parallel.hpp>

namespace torch::optim {
class Optimizer;
}

namespace tw::layer_training {

/// Initial values of the new layers.
enum class Refinement {
  constant,  ///< the values of the coarse layer whose time step contains the new layer
  linear,    ///< linear interpolation between the midpoints of coarse time steps
};

/// Sets the parameters and buffers of `fine` from `coarse`: blocks of equal size are copied, larger ones are refined. Collective.
/// @param fine has the same blocks on the same ranks. The number of layers of each ODE block is a multiple of that in `coarse`.
/// @throws ContractError on ranks where a tensor of `fine` matches none of `coarse`; RevokedError on the others
void refine(const layer_parallel::LayerParallel& coarse, layer_parallel::LayerParallel& fine, Refinement refinement = Refinement::constant);

/// Calls refine(coarse, fine), then sets the state of `fine_optimizer` from `coarse_optimizer`, which must be of the same class. Collective.
void refine(const layer_parallel::LayerParallel& coarse, torch::optim::Optimizer& coarse_optimizer, layer_parallel::LayerParallel& fine,
            torch::optim::Optimizer& fine_optimizer, Refinement refinement = Refinement::constant);

}  // namespace tw::layer_training
