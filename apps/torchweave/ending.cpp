// SPDX-License-Identifier: Apache-2.0
#include "ending.hpp"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/process.hpp>
#include <tw/base/terminal.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <vector>

namespace tw::tool {
namespace {

constexpr auto patience = std::chrono::seconds(1);

/// The end of a rank, with a hash of its message.
struct Outcome {
  int64_t exit_code = 0;
  int64_t hash = 0;
  bool operator==(const Outcome&) const = default;
};

// The outcomes of all ranks. Empty if this rank has an error and another rank does not arrive in time. A rank without an error waits for all others.
std::vector<Outcome> exchange(const Communicator& comm, const Outcome& mine) {
  const at::Tensor here = at::tensor({mine.exit_code, mine.hash}, at::kLong);
  const at::Tensor everywhere = at::zeros({comm.size(), 2}, at::kLong);
  Work work = iallgather(comm, here, everywhere);
  while (!work.wait_for(patience)) {
    if (mine.exit_code != 0) return {};
  }
  std::vector<Outcome> all;
  for (int rank = 0; rank < comm.size(); ++rank) all.push_back({everywhere[rank][0].item<int64_t>(), everywhere[rank][1].item<int64_t>()});
  return all;
}

// In one write, so that lines of several ranks do not mix.
void write(const std::string& text) {
  if (!text.empty()) std::cerr << concat("torchweave: ", text, '\n') << std::flush;
  wait_until_output_is_read(patience);  // another rank may end the job
}

}  // namespace

Ending::Ending(const Communicator& world) : comm_(world.dup()) { barrier(comm_); }  // the first use of a communicator needs all ranks

void Ending::end_together(const End& end) const {
  std::cout.flush();  // MPI_Abort does not
  const std::string message = without_process_label(end.message);
  const std::string labelled = message.empty() ? "" : concat(process_label(), ": ", message);
  const Outcome mine{end.exit_code, static_cast<int64_t>(content_hash(message))};
  const std::vector<Outcome> all = exchange(comm_, mine);
  if (all.empty()) {
    write(labelled);
    Environment::abort("", end.exit_code);
  }
  const int64_t worst = std::ranges::max(all, {}, &Outcome::exit_code).exit_code;
  if (worst == 0) return;
  const auto first = std::ranges::find(all, mine) - all.begin();
  if (first == comm_.rank()) write(std::ranges::count(all, mine) == comm_.size() ? message : labelled);
  (void)ibarrier(comm_).wait_for(patience);  // until all messages are written
  // One rank aborts first: when several abort at once, Open MPI's launcher sometimes warns of its own file descriptors.
  if (comm_.rank() != 0) std::this_thread::sleep_for(patience);
  Environment::abort("", static_cast<int>(worst));
}

}  // namespace tw::tool
