// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Lets ranks with unequal numbers of batches train together: every rank makes the same number of steps as the one with the most batches, so that
/// collectives match on all ranks, with any strategy. Collective; one all-reduce of 8 bytes per step, and one at the end.
///
/// ```
/// size_t next = 0;
/// join(comm, [&] { return next++ < batches.size(); },
///      [&](bool has_input) {
///        const Batch& mine = has_input ? batches[next - 1] : empty_batch;  // inputs of shape [0, ...], targets of shape [0]
///        parallel.set_samples(mine.size());                         // with Reduction::sample_weighted
///        optimizer.zero_grad();
///        mean_loss(model->forward(mine.inputs), mine.targets).backward();
///        optimizer.step();
///      });
/// ```
/// A rank without input must still take part in all communication. The simplest method is an empty batch: its forward and backward passes run every
/// layer. With Reduction::sample_weighted and set_samples(0), the rank's gradients have weight 0, so the step equals that of one process on all
/// remaining samples. A mean loss over no samples is NaN; leave it out when you sum losses. If a layer does not accept empty batches (batch
/// normalisation), use any batch in an IdlePass instead: with weight 0 the batch changes no gradient, and the IdlePass restores buffers. With
/// Reduction::sum and a loss that is a sum, an empty batch is correct without set_samples(). Reduction::mean divides by the number of all ranks,
/// including those without input, so its result differs from that of one process.
///
/// @param next moves to this rank's next input, and returns whether there is one; called once before each step, and not after it has returned false.
/// @param step runs one step of training; it must make the same collective calls on all ranks, whether or not this rank has an input.
/// @return the number of steps, the same on all ranks. Exceptions of `next` or `step` propagate; the other ranks then wait for this one.
int64_t join(const Communicator& comm, const std::function<bool()>& next, const std::function<void(bool has_input)>& step);

}  // namespace tw
