// SPDX-License-Identifier: Apache-2.0
// The streams of the simulated devices: lists of what is to be done, and of what must be done before.
#pragma once
#include <c10/core/Stream.h>

#include <functional>
#include <memory>

namespace tw::testing::accelerator {

constexpr auto device_type = c10::DeviceType::PrivateUse1;

int device_count();
void set_device_count(int devices);

/// Of this thread.
c10::Device current_device();
void set_current_device(c10::Device device);
c10::Stream current_stream(c10::Device device);
void set_current_stream(c10::Stream stream);

c10::Stream default_stream(c10::Device device);
/// The next of eight.
c10::Stream stream_of_pool(c10::Device device);

/// A place in a stream: all that it had at some time.
class Moment;
using Event = std::shared_ptr<Moment>;

/// Puts `work` at the end of a stream.
void put(c10::Stream stream, std::function<void()> work);
/// The same for work that takes other processes: `attempt` is called until it says that it is done.
void put_attempts(c10::Stream stream, std::function<bool()> attempt);

/// The vendor's handle of a stream, and back.
void* native_handle(c10::Stream stream);
c10::Stream stream_of_handle(void* handle);
Event record(c10::Stream stream);
/// What comes into `stream` from now on is done after `event`.
void wait_in(c10::Stream stream, Event event);

/// Whether it is done. Time passes by being asked: it is done when this is called a second time.
bool query(Event& event);
/// Does all up to `event`: the host waits.
void wait_on_host(const Event& event);
void wait_on_host(c10::Stream stream);
/// The same without counting: for what waits on no real device.
void finish(c10::Stream stream);
void finish_all();

int64_t host_waits();

}  // namespace tw::testing::accelerator
