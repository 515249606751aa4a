// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Lets ranks with unequal numbers of batches train together: every rank makes as many steps as the one with the most batches, so that all
/// collectives of training meet, whatever the strategy. Collective; one all-reduce of 8 bytes a step, and one at the end.
///
/// ```
/// join(comm, [&] { return ++batch != batches.end(); },
///      [&](bool has_input) {
///        const Batch mine = has_input ? *batch : empty_batch;       // inputs of shape [0, ...], targets of shape [0]
///        parallel.set_samples(mine.size());                         // with Reduction::sample_weighted
///        optimizer.zero_grad();
///        mean_loss(model->forward(mine.inputs), mine.targets).backward();
///        optimizer.step();
///      });
/// ```
/// A rank without input must still take part in all communication. The simplest method is a batch of no samples: its forward and backward passes run
/// every layer, its gradients count with weight 0 under Reduction::sample_weighted and set_samples(0), and the step is that of one process on all the
/// samples that there are. The loss of such a batch is not a number if it is a mean; leave it out of sums. Layers that refuse empty batches (batch
/// normalisation) can have any batch instead, in an IdlePass: under weight 0 it changes no gradient, and the IdlePass leaves buffers as they are.
/// With Reduction::sum and a loss that is a sum, the empty batch alone is right. Reduction::mean divides by all ranks, also by those without input,
/// and is not what one process computes.
///
/// @param next moves to this rank's next input, and returns whether there is one; called once before each step, and not after it has returned false.
/// @param step one step of training; the same collectives on all ranks, whether or not this rank has an input.
/// @return the number of steps, the same on all ranks. What `next` or `step` throw comes out; the other ranks then wait for this one, as always.
int64_t join(const Communicator& comm, const std::function<bool()>& next, const std::function<void(bool has_input)>& step);

}  // namespace tw
