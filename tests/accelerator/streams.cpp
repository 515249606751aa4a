// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <sched.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace tw::testing::accelerator {
namespace {

struct Queue {
  std::deque<std::function<bool()>> work;  // returns true when done
  uint64_t put = 0, done = 0;
};

// Work may queue more work and wait for other streams, so one recursive lock guards all queues.
std::recursive_mutex& lock() {
  static auto& only = *new std::recursive_mutex;
  return only;
}

std::map<std::pair<int, c10::StreamId>, Queue>& queues() {
  static auto& only = *new std::map<std::pair<int, c10::StreamId>, Queue>;
  return only;
}

Queue& queue_of(c10::Stream stream) { return queues()[{stream.device_index(), stream.id()}]; }

// Runs as far as possible without waiting for other processes. @return whether it reached `place`
bool try_until(Queue& queue, uint64_t place) {
  while (queue.done < place) {
    auto work = std::move(queue.work.front());
    queue.work.pop_front();
    ++queue.done;  // first: the work may re-enter here
    if (work()) continue;
    queue.work.push_front(std::move(work));
    --queue.done;
    return false;
  }
  return true;
}

// While waiting for other processes, runs other streams too, as a device would.
void run_until(Queue& queue, uint64_t place) {
  while (!try_until(queue, place)) {
    for (auto& [id, other] : queues()) try_until(other, other.put);
    sched_yield();
  }
}

constexpr c10::StreamId pool_streams = 8;

std::atomic<int> devices = 0;
std::atomic<int64_t> waits = 0;
std::atomic<c10::StreamId> next_of_pool = 0;
thread_local c10::DeviceIndex device_of_thread = 0;

c10::StreamId& current_of_thread(c10::Device device) {
  static thread_local std::map<int, c10::StreamId> current;
  return current[device.has_index() ? device.index() : device_of_thread];
}

c10::Stream stream_of(c10::Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device.has_index() ? device : current_device(), id);
}

}  // namespace

class Moment {
 public:
  Moment(Queue& queue, uint64_t place) : queue_(queue), place_(place) {}
  bool is_done() const { return queue_.done >= place_; }
  void run() const { run_until(queue_, place_); }
  bool try_to_run() const { return try_until(queue_, place_); }

  bool asked = false;

 private:
  Queue& queue_;
  uint64_t place_;
};

int device_count() { return devices; }
void set_device_count(int count) { devices = count; }

c10::Device current_device() { return {device_type, device_of_thread}; }
void set_current_device(c10::Device device) {
  TORCH_CHECK(device.index() < devices, "there is no ", device.str(), ": there are ", devices.load(), " devices");
  if (device.has_index()) device_of_thread = device.index();
}

c10::Stream current_stream(c10::Device device) { return stream_of(device, current_of_thread(device)); }
void set_current_stream(c10::Stream stream) { current_of_thread(stream.device()) = stream.id(); }

c10::Stream default_stream(c10::Device device) { return stream_of(device, 0); }
c10::Stream stream_of_pool(c10::Device device) { return stream_of(device, 1 + next_of_pool++ % pool_streams); }

void put(c10::Stream stream, std::function<void()> work) {
  put_attempts(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

void put_attempts(c10::Stream stream, std::function<bool()> attempt) {
  const std::lock_guard guard(lock());
  Queue& queue = queue_of(stream);
  queue.work.push_back(std::move(attempt));
  ++queue.put;
}

// Never null, unlike the default stream's handle on real devices, so a missing handle is noticed.
void* native_handle(c10::Stream stream) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(1 + stream.id() + (pool_streams + 1) * stream.device_index()));
}

c10::Stream stream_of_handle(void* handle) {
  const auto number = static_cast<c10::StreamId>(reinterpret_cast<uintptr_t>(handle)) - 1;
  TORCH_CHECK(number >= 0, "no stream was given");
  return stream_of({device_type, static_cast<c10::DeviceIndex>(number / (pool_streams + 1))}, number % (pool_streams + 1));
}

Event record(c10::Stream stream) {
  const std::lock_guard guard(lock());
  Queue& queue = queue_of(stream);
  return std::make_shared<Moment>(queue, queue.put);
}

void wait_in(c10::Stream stream, Event event) {
  put_attempts(stream, [event = std::move(event)] { return event->try_to_run(); });
}

bool query(Event& event) {
  const std::lock_guard guard(lock());
  if (!event->is_done() && std::exchange(event->asked, true)) event->try_to_run();
  return event->is_done();
}

void wait_on_host(const Event& event) {
  ++waits;
  const std::lock_guard guard(lock());
  event->run();
}

void wait_on_host(c10::Stream stream) { wait_on_host(record(stream)); }

void finish(c10::Stream stream) {
  const std::lock_guard guard(lock());
  record(stream)->run();
}

void finish_all() {
  const std::lock_guard guard(lock());
  for (auto& [id, queue] : queues()) run_until(queue, queue.put);
}

int64_t host_waits() { return waits; }

}  // namespace tw::testing::accelerator
