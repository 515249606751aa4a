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

/// What a rank has to say; equal messages have equal hashes.
struct Words {
  int64_t exit_code = 0;
  int64_t hash = 0;
  bool operator==(const Words&) const = default;
};

// Those of all ranks; none when this one has an error and another does not come. Who has none waits as long as the others work.
std::vector<Words> exchange(const Communicator& comm, const Words& mine) {
  const at::Tensor here = at::tensor({mine.exit_code, mine.hash}, at::kLong);
  const at::Tensor everywhere = at::zeros({comm.size(), 2}, at::kLong);
  Work work = iallgather(comm, here, everywhere);
  while (!work.wait_for(patience)) {
    if (mine.exit_code != 0) return {};
  }
  std::vector<Words> all;
  for (int rank = 0; rank < comm.size(); ++rank) all.push_back({everywhere[rank][0].item<int64_t>(), everywhere[rank][1].item<int64_t>()});
  return all;
}

// In one piece, so that lines of several ranks do not mix.
void write(const std::string& text) {
  if (!text.empty()) std::cerr << concat("torchweave: ", text, '\n') << std::flush;
  wait_until_output_is_read(patience);  // another rank may end the job
}

}  // namespace

Ending::Ending(const Communicator& world) : comm_(world.dup()) { barrier(comm_); }  // the first use of a communicator takes everyone

void Ending::meet(const std::string& message, int exit_code) const {
  std::cout.flush();  // MPI's abort does not
  const std::string said = without_process_label(message);
  const std::string of_one = said.empty() ? "" : concat(process_label(), ": ", said);
  const Words mine{exit_code, static_cast<int64_t>(content_hash(said))};
  const std::vector<Words> all = exchange(comm_, mine);
  if (all.empty()) {
    write(of_one);
    Environment::abort("", exit_code);
  }
  const int64_t worst = std::ranges::max(all, {}, &Words::exit_code).exit_code;
  if (worst == 0) return;
  const auto first = std::ranges::find(all, mine) - all.begin();
  if (first == comm_.rank()) write(std::ranges::count(all, mine) == comm_.size() ? said : of_one);
  (void)ibarrier(comm_).wait_for(patience);  // until all is written
  // One rank ends all: over several that do at the same moment Open MPI's launcher stumbles now and then, and warns of its own file descriptors.
  if (comm_.rank() != 0) std::this_thread::sleep_for(patience);
  Environment::abort("", static_cast<int>(worst));
}

}  // namespace tw::tool
