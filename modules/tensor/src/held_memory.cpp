// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/held_memory.hpp>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Logging.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace tw {
namespace {

// LibTorch warns about the first freed block whose allocation it did not see, and about every thousandth. Here that is normal, because parameters are
// older than the counter. So this block is freed first, with warnings off.
c10::DataPtr first_unseen() {
  static std::atomic<bool> made = false;
  return made.exchange(true) ? c10::DataPtr() : c10::GetDefaultCPUAllocator()->allocate(1);
}

void give_back_in_silence(c10::DataPtr unseen) {
  if (unseen.get() == nullptr) return;
  const int level = std::exchange(FLAGS_caffe2_log_level, c10::GLOG_ERROR);
  unseen.clear();
  FLAGS_caffe2_log_level = level;
}

}  // namespace

struct HeldMemory::Counter : c10::MemoryReportingInfoBase {
  Counter(c10::DeviceType of, OnBlock told) : kind(of), on_block(std::move(told)) {}

  void reportMemoryUsage(void* address, int64_t size, size_t /*allocated*/, size_t /*reserved*/, c10::Device device) override {
    if (device.type() != kind || paused) return;
    const std::lock_guard lock(mutex);
    if (size <= 0) return forget(address);
    forget(address);  // freed by a thread that does not report
    blocks.emplace(address, size);
    now += size;
    most = std::max(most, now);
    if (on_block) on_block(address, size);
  }
  bool memoryProfilingEnabled() const override { return !paused; }

  void forget(const void* address) {
    const auto found = blocks.find(address);
    if (found == blocks.end()) return;  // older than this counter
    const int64_t size = found->second;
    blocks.erase(found);
    now -= size;
    if (on_block) on_block(address, -size);
  }

  mutable std::mutex mutex;
  const c10::DeviceType kind;
  std::atomic<bool> paused = false;
  OnBlock on_block;
  ska::flat_hash_map<const void*, int64_t> blocks;
  int64_t now = 0;
  int64_t most = 0;
};

HeldMemory::HeldMemory(c10::DeviceType kind, OnBlock on_block) : counter_(std::make_shared<Counter>(kind, std::move(on_block))) {
  c10::DataPtr unseen = first_unseen();
  guard_ = std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, counter_);
  give_back_in_silence(std::move(unseen));
}

HeldMemory::~HeldMemory() {
  guard_.reset();
  counter_->paused = true;  // other threads may hold it for longer
  const std::lock_guard lock(counter_->mutex);
  counter_->on_block = {};
}

int64_t HeldMemory::now() const {
  const std::lock_guard lock(counter_->mutex);
  return counter_->now;
}
int64_t HeldMemory::most() const {
  const std::lock_guard lock(counter_->mutex);
  return counter_->most;
}
void HeldMemory::forget_most() {
  const std::lock_guard lock(counter_->mutex);
  counter_->most = counter_->now;
}
void HeldMemory::pause() {
  counter_->paused = true;
  const std::lock_guard lock(counter_->mutex);
  counter_->blocks.clear();
  counter_->now = counter_->most = 0;
}
void HeldMemory::resume() { counter_->paused = false; }
bool HeldMemory::has(const void* address) const {
  const std::lock_guard lock(counter_->mutex);
  return counter_->blocks.find(address) != counter_->blocks.end();
}

}  // namespace tw
