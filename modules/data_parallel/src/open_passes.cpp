// SPDX-License-Identifier: Apache-2.0
#include "open_passes.hpp"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <vector>

namespace tw {
namespace {

struct OpenPass {
  int backward;  // LibTorch's number of the backward() that it is part of
  int64_t number;
  std::function<void()> end;
};

// Callbacks run on the thread that called backward(), or on one of a device's.
std::mutex mutex;
std::vector<OpenPass> open_passes;

std::vector<OpenPass> take(int backward) {
  const std::lock_guard lock(mutex);
  const auto others = std::stable_partition(open_passes.begin(), open_passes.end(), [&](const OpenPass& pass) { return pass.backward == backward; });
  std::vector<OpenPass> taken(std::move_iterator(open_passes.begin()), std::move_iterator(others));
  open_passes.erase(open_passes.begin(), others);
  std::sort(taken.begin(), taken.end(), [](const OpenPass& a, const OpenPass& b) { return a.number < b.number; });
  return taken;
}

}  // namespace

int64_t OpenPasses::next_number() noexcept {
  static std::atomic<int64_t> next = 0;
  return next++;
}

void OpenPasses::open(int64_t number, std::shared_ptr<void> pass, std::function<void()> end) {
  const int backward = torch::autograd::get_current_graph_task_id();
  {
    const std::lock_guard lock(mutex);
    std::erase_if(open_passes, [&](const OpenPass& each) { return each.number == number; });  // of a backward() that threw
    open_passes.push_back({backward, number, std::move(end)});
  }
  torch::autograd::Engine::get_default_engine().queue_callback([backward, pass = std::move(pass)] {
    for (const OpenPass& each : take(backward)) each.end();
  });
}

}  // namespace tw
