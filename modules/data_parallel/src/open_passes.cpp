// SPDX-License-Identifier: Apache-2.0
#include "open_passes.hpp"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <vector>

namespace tw {
namespace {

struct OpenPass {
  int backward;  // LibTorch's number of its backward()
  int64_t number;
  std::weak_ptr<void> pass;  // expired if backward() threw
  std::function<void()> end;
  std::function<void()> fail;
};

// Callbacks run on the thread that called backward() or on a device's thread.
std::mutex mutex;
std::vector<OpenPass> open_passes;

template <class Wanted>
std::vector<OpenPass> take(Wanted wanted) {
  const std::lock_guard lock(mutex);
  const auto others = std::stable_partition(open_passes.begin(), open_passes.end(), wanted);
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

void OpenPasses::open(int64_t number, std::shared_ptr<void> pass, std::function<void()> end, std::function<void()> fail) {
  const int backward = torch::autograd::get_current_graph_task_id();
  {
    const std::lock_guard lock(mutex);
    std::erase_if(open_passes, [&](const OpenPass& each) { return each.number == number; });  // of a backward() that threw
    open_passes.push_back({backward, number, pass, std::move(end), std::move(fail)});
  }
  torch::autograd::Engine::get_default_engine().queue_callback([backward, pass = std::move(pass)] {
    std::exception_ptr failure;  // other ranks wait for all passes, so end them all first
    for (const OpenPass& each : take([&](const OpenPass& open) { return open.backward == backward; })) {
      try {
        each.end();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  });
}

void OpenPasses::end_failed() {
  for (const OpenPass& each : take([](const OpenPass& open) { return open.pass.expired(); })) each.fail();
}

}  // namespace tw
