// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/work.hpp>

#include "runtime.hpp"

namespace tw {

Work::Work() noexcept = default;
Work::Work(std::shared_ptr<mpi::Operation> operation) noexcept : operation_(std::move(operation)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

namespace {

// Throws a complete operation's failure, or joins its stream; each call does so again. While an operation is only in a stream, its outcome is
// unknown.
void report(mpi::Operation& operation) {
  if (operation.done.load(std::memory_order_acquire)) {
    operation.reported = true;
    if (operation.failure) std::rethrow_exception(operation.failure);
  }
  if (operation.completion) operation.completion->join_stream();
}

mpi::Engine& engine_of(const mpi::Operation& operation) { return operation.comm->runtime->engine(); }

}  // namespace

bool Work::test() {
  if (!operation_) return true;
  if (!operation_->is_done()) engine_of(*operation_).progress();
  if (!operation_->is_done()) return false;
  report(*operation_);
  return true;
}

void Work::wait() { wait(std::function<int64_t()>()); }

void Work::wait(const std::function<int64_t()>& activity) {
  if (!operation_) return;
  if (!operation_->is_done()) engine_of(*operation_).wait(*operation_, std::nullopt, /*on_host=*/false, activity);
  report(*operation_);
}

bool Work::done() const noexcept { return !operation_ || operation_->is_done(); }

void Work::wait_on_host() {
  if (!operation_) return;
  if (!operation_->is_done(/*on_host=*/true)) engine_of(*operation_).wait(*operation_, std::nullopt, /*on_host=*/true);
  report(*operation_);
  if (operation_->completion) operation_->completion->wait_on_host();
}

bool Work::wait_for(std::chrono::nanoseconds timeout) {
  if (!operation_) return true;
  if (!operation_->is_done() && !engine_of(*operation_).wait(*operation_, mpi::Clock::now() + timeout)) return false;
  report(*operation_);
  return true;
}

}  // namespace tw
