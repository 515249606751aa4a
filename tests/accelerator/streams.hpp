// SPDX-License-Identifier: Apache-2.0
// The streams of the simulated devices: queues of work, with dependencies on other work.
#pragma once
#include <c10/core/Stream.h>

#include <functional>
#include <memory>

namespace tw::testing::accelerator {

constexpr auto device_type = c10::DeviceType::PrivateUse1;

int device_count();
void set_device_count(int devices);

/// The current device of this thread.
c10::Device current_device();
void set_current_device(c10::Device device);
c10::Stream current_stream(c10::Device device);
void set_current_stream(c10::Stream stream);

c10::Stream default_stream(c10::Device device);
/// The next of eight.
c10::Stream stream_of_pool(c10::Device device);

/// A position in a stream: all work it had at some time.
class Moment;
using Event = std::shared_ptr<Moment>;

/// Appends `work` to a stream.
void put(c10::Stream stream, std::function<void()> work);
/// The same for work that involves other processes: `attempt` is called until it returns true.
void put_attempts(c10::Stream stream, std::function<bool()> attempt);

/// The vendor's handle of a stream, and back.
void* native_handle(c10::Stream stream);
c10::Stream stream_of_handle(void* handle);
Event record(c10::Stream stream);
/// Orders later work in `stream` after `event`.
void wait_in(c10::Stream stream, Event event);

/// Whether it has completed. Each call advances time: the second call returns true.
bool query(Event& event);
/// Runs everything up to `event`; counts as a host wait.
void wait_on_host(const Event& event);
void wait_on_host(c10::Stream stream);
/// The same without counting, for waits that a real device would not need.
void finish(c10::Stream stream);
void finish_all();

int64_t host_waits();

}  // namespace tw::testing::accelerator
