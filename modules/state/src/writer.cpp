// SPDX-License-Identifier: Apache-2.0
#include "writer.hpp"

#include <csignal>
#include <exception>

namespace tw {
namespace {

// Blocks signals, so that the program's handlers run on its own threads. Faults of this thread stay unblocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Writer::Writer() {
  const SignalsBlocked blocked;  // inherited by the thread
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

void Writer::run(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, cancelled(), [this] { return !job_; });
  if (cancelled().stop_requested()) {
    failure_ = "the checkpoint was dropped before it was complete";
    return;
  }
  failure_.clear();
  job_ = std::move(job);
  changed_.notify_all();
}

bool Writer::idle() {
  const std::lock_guard lock(mutex_);
  return !job_;
}

bool Writer::wait_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return !job_; });
}

std::string Writer::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Writer::stop() {
  {
    const std::lock_guard lock(mutex_);  // run() either fails, or its job is done
    thread_.request_stop();
  }
  if (thread_.joinable()) thread_.join();
}

void Writer::work(const std::stop_token& cancelled) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, cancelled, [this] { return job_ != nullptr; })) {
    lock.unlock();
    std::string failure;
    try {
      job_();
    } catch (const std::exception& error) {
      failure = error.what();
      if (failure.empty()) failure = "unknown failure";
    }
    lock.lock();
    failure_ = std::move(failure);
    job_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace tw
