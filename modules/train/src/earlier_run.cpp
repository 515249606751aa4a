// SPDX-License-Identifier: Apache-2.0
#include "earlier_run.hpp"

#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>

#include "data_identity.hpp"

namespace tw::train {

std::optional<Progress> earlier_run(const Snapshots& snapshots, const Options& options, const Progress& now) {
  if (options.resume == Resume::fresh) return std::nullopt;
  const auto last = snapshots.last_step();
  if (!last) return std::nullopt;
  auto earlier = snapshots.newest();
  const std::string folder = options.folder().string();
  const bool refuses = options.resume == Resume::refuse;
  if (!earlier || (refuses && earlier->finished && earlier->step != *last)) {
    throw Error(
        concat(folder, " holds a run whose end is unknown: the newest checkpoint, of step ", *last, ", is damaged. ",
               earlier ? concat("Resume from the checkpoint of step ", earlier->step, " (--resume), or discard") : "No other is intact. Discard",
               " the run (--fresh)"));
  }
  if (refuses && earlier->finished) return std::nullopt;
  if (refuses) {
    throw Error(concat(folder, " holds a run that was not finished: epoch ", earlier->epoch, ", step ", earlier->step,
                       ". Resume it (--resume), or discard it (--fresh)"));
  }
  TW_EXPECTS(earlier->seed == options.seed, "the run to be resumed began with seed ", earlier->seed, ", but options.seed is ", options.seed);
  if (!earlier->data.empty() && !is_same_data(earlier->data, now.data)) {
    throw Error(concat("the run in ", folder, " began with different data. It had, ", earlier->data, "; this run has, ", now.data,
                       ". Resume it with its own data, or choose another name for this run"));
  }
  if (!earlier->optimizer.empty() && earlier->optimizer != now.optimizer) {
    throw Error(concat("the run in ", folder, " began with the optimizer ", earlier->optimizer, ", not ", now.optimizer,
                       ", which would misread its state. Resume it with its own optimizer, or choose another name for this run"));
  }
  if (options.global_batch > 0 && options.global_batch != earlier->global_batch) {
    throw Error(concat("the run in ", folder, " began with a global batch of ", earlier->global_batch,
                       " samples, which a resumed run keeps: leave global_batch out, or set it to ", earlier->global_batch, ", not ",
                       options.global_batch));
  }
  return earlier;
}

}  // namespace tw::train
