// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace tw::testing::accelerator {
namespace {

struct Queue {
  std::deque<std::function<void()>> work;
  uint64_t put = 0, done = 0;
};

// What runs may put more and wait for other streams: one lock for all, which one thread may take many times.
std::recursive_mutex& lock() {
  static auto& only = *new std::recursive_mutex;
  return only;
}

std::map<std::pair<int, c10::StreamId>, Queue>& queues() {
  static auto& only = *new std::map<std::pair<int, c10::StreamId>, Queue>;
  return only;
}

Queue& queue_of(c10::Stream stream) { return queues()[{stream.device_index(), stream.id()}]; }

void run_until(Queue& queue, uint64_t place) {
  while (queue.done < place) {
    const auto work = std::move(queue.work.front());
    queue.work.pop_front();
    ++queue.done;  // first: it may come back here
    work();
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
  const std::lock_guard guard(lock());
  Queue& queue = queue_of(stream);
  queue.work.push_back(std::move(work));
  ++queue.put;
}

Event record(c10::Stream stream) {
  const std::lock_guard guard(lock());
  Queue& queue = queue_of(stream);
  return std::make_shared<Moment>(queue, queue.put);
}

void wait_in(c10::Stream stream, Event event) {
  put(stream, [event = std::move(event)] { event->run(); });
}

bool query(Event& event) {
  const std::lock_guard guard(lock());
  if (!event->is_done() && std::exchange(event->asked, true)) event->run();
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
