// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/data/loader.hpp>

#include <ATen/Parallel.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "upload.hpp"

namespace tw {
namespace {

// Random numbers for one sample's augmentation.
CounterRng random_for(uint64_t seed, int64_t epoch, int64_t sample) {
  return CounterRng(derived_seed(seed, static_cast<uint64_t>(epoch)), static_cast<uint64_t>(sample));
}

}  // namespace

void visit(LoaderOptions& options, OptionVisitor& visitor) {
  visitor.field("global_batch", options.global_batch, at_least(1, any_count), {.meaning = "samples per step, over all ranks", .unit = "samples"});
  visitor.field("workers", options.workers, at_least(0, LoaderOptions::max_workers),
                {.meaning = "threads that prepare batches in advance; 0: next() prepares each batch itself"});
  visitor.field("prefetch", options.prefetch, at_least(0),
                {.meaning = "maximum number of batches in preparation or ready, over all workers", .unit = "batches"});
  visitor.presence("augmentation", static_cast<bool>(options.augmentation));
  visitor.field("seed", options.seed, Bounds{}, {.meaning = "seed of the augmentation"});
}

void LoaderOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(workers == 0 || prefetch > 0, "prefetch must be at least 1 when workers is above 0, got ", prefetch);
}

// Workers claim batches in the epoch's order under one mutex, load them without it, and put them into a ring of `prefetch` slots. next() reads the
// slots in the same order. A batch is claimed when its slot is free. begin_epoch() does not wait: batches for an earlier beginning are dropped.
class Loader::WorkerPool {
 public:
  WorkerPool(const Dataset& dataset, DistributedSampler sampler, LoaderOptions options)
      : dataset_(dataset),
        sampler_(std::move(sampler)),
        options_(std::move(options)),
        steps_(sampler_.steps(options_.global_batch)),
        upload_(options_.device) {
    if (options_.workers == 0) return;
    slots_.resize(static_cast<size_t>(options_.prefetch));
    // at::set_num_threads() affects the calling thread, and threads that have not asked yet; the latter is undone below.
    const int threads = at::get_num_threads();
    for (int i = 0; i < options_.workers; ++i) {
      workers_.emplace_back([this, counted = c10::ThreadLocalDebugInfo::current()](const std::stop_token& stop) {
        const c10::DebugInfoGuard counts_for(counted);  // memory is counted for the thread that made this loader
        (void)at::get_num_threads();  // a thread's first query adopts the process's number, even after it set its own, so query first
        at::set_num_threads(1);
        work(stop);
      });
    }
    std::unique_lock lock(mutex_);
    has_batch_.wait(lock, [this] { return at_work_ == options_.workers; });
    at::set_num_threads(threads);
  }

  ~WorkerPool() {
    for (std::jthread& worker : workers_) worker.request_stop();  // all at once, before the first is joined
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void begin_epoch(int64_t epoch, int64_t consumed, std::optional<int> consuming_ranks) {
    {
      const std::lock_guard lock(mutex_);
      sampler_.resume(epoch, consumed, consuming_ranks);
      ++beginning_;
      claimed_ = 0;
      taken_ = 0;
      consumed_ = consumed;
      end_ = sampler_.end();
      failure_ = nullptr;
      for (Slot& slot : slots_) slot = {};
    }
    can_claim_.notify_all();
  }

  std::optional<Batch> next() {
    TW_EXPECTS(beginning_ > 0, "the loader has not begun an epoch: call begin_epoch()");
    if (failure_) std::rethrow_exception(failure_);
    if (workers_.empty()) {
      if (sampler_.epoch_done()) return std::nullopt;
      const Stopwatch watch;
      Slot slot = make(next_request());
      waited_ += watch.elapsed();
      return hand_out(std::move(slot));
    }
    std::unique_lock lock(mutex_);
    if (taken_ == claimed_ && sampler_.epoch_done()) return std::nullopt;
    Slot& ready = slots_[static_cast<size_t>(taken_) % slots_.size()];
    if (!ready.filled) {
      const Stopwatch watch;
      has_batch_.wait(lock, [&] { return ready.filled; });
      waited_ += watch.elapsed();
    }
    Slot slot = std::exchange(ready, {});
    ++taken_;
    lock.unlock();
    can_claim_.notify_one();
    return hand_out(std::move(slot));
  }

  int64_t steps() const noexcept { return steps_; }
  int64_t consumed() const noexcept { return consumed_; }
  int64_t end() const noexcept { return end_; }
  Seconds waited() const noexcept { return waited_; }

 private:
  // Input of one batch.
  struct SampleRequest {
    std::vector<int64_t> indices;
    int64_t epoch = 0;
    int64_t consumed = 0;  // including this batch
  };

  struct Slot {
    bool filled = false;
    Upload::Sent sent;
    int64_t consumed = 0;
    std::exception_ptr failure;
  };

  SampleRequest next_request() {
    SampleRequest request{sampler_.next_share(options_.global_batch), sampler_.epoch()};
    request.consumed = sampler_.consumed();
    return request;
  }

  Slot make(const SampleRequest& request) const noexcept {
    Slot slot{.filled = true, .sent = {}, .consumed = request.consumed, .failure = nullptr};
    try {
      Batch batch = dataset_.batch(request.indices);
      if (options_.augmentation) {
        batch.inputs = batch.inputs.clone();  // it may be a view of the data set's memory
        augment(batch.inputs, request);
      }
      slot.sent = upload_.send(std::move(batch));
    } catch (...) {
      slot.failure = std::current_exception();
    }
    return slot;
  }

  void augment(const at::Tensor& inputs, const SampleRequest& request) const {
    for (size_t i = 0; i < request.indices.size(); ++i) {
      CounterRng random = random_for(options_.seed, request.epoch, request.indices[i]);
      const at::Tensor sample = inputs.select(0, static_cast<int64_t>(i));
      const at::Tensor changed = options_.augmentation(sample, random);
      TW_EXPECTS(changed.sizes() == sample.sizes() && changed.scalar_type() == sample.scalar_type(),
                 "the augmentation must keep shape and dtype, but returned ", changed.sizes(), ' ', c10::toString(changed.scalar_type()),
                 " for a sample ", sample.sizes(), ' ', c10::toString(sample.scalar_type()));
      if (!changed.is_same(sample)) sample.copy_(changed.is_alias_of(sample) ? changed.clone() : changed);
    }
  }

  std::optional<Batch> hand_out(Slot slot) {
    failure_ = slot.failure;
    if (failure_) std::rethrow_exception(failure_);
    consumed_ = slot.consumed;
    return upload_.receive(std::move(slot.sent));
  }

  bool may_claim() const { return beginning_ > 0 && !sampler_.epoch_done() && claimed_ - taken_ < static_cast<int64_t>(slots_.size()); }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    ++at_work_;
    has_batch_.notify_one();
    while (can_claim_.wait(lock, stop, [this] { return may_claim(); })) {
      if (stop.stop_requested()) return;
      const int64_t beginning = beginning_;
      const auto at = static_cast<size_t>(claimed_++) % slots_.size();
      const SampleRequest request = next_request();
      lock.unlock();
      Slot slot = make(request);
      lock.lock();
      if (beginning != beginning_) continue;
      slots_[at] = std::move(slot);
      has_batch_.notify_one();
    }
  }

  const Dataset& dataset_;
  DistributedSampler sampler_;
  const LoaderOptions options_;
  const int64_t steps_;
  const Upload upload_;

  // Used by the caller's thread only.
  int64_t consumed_ = 0;
  int64_t end_ = 0;
  Seconds waited_{0};
  std::exception_ptr failure_;

  std::mutex mutex_;  // guards the members below, and sampler_
  std::condition_variable_any can_claim_;
  std::condition_variable has_batch_;
  std::vector<Slot> slots_;
  int64_t beginning_ = 0;  // number of epochs begun
  int64_t claimed_ = 0;    // batches of this epoch
  int64_t taken_ = 0;
  int at_work_ = 0;                    // workers that have started
  std::vector<std::jthread> workers_;  // last member: workers use all of the above, and are joined first
};

Loader::Loader(const Dataset& dataset, DistributedSampler sampler, LoaderOptions options) {
  options.validate();
  workers_ = std::make_unique<WorkerPool>(dataset, std::move(sampler), std::move(options));
}

Loader::~Loader() = default;

void Loader::begin_epoch(int64_t epoch, int64_t consumed, std::optional<int> consuming_ranks) {
  workers_->begin_epoch(epoch, consumed, consuming_ranks);
}
std::optional<Batch> Loader::next() { return workers_->next(); }
int64_t Loader::steps() const { return workers_->steps(); }
int64_t Loader::consumed() const noexcept { return workers_->consumed(); }
int64_t Loader::end() const noexcept { return workers_->end(); }
Seconds Loader::waited() const noexcept { return workers_->waited(); }

}  // namespace tw
