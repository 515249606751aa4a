// SPDX-License-Identifier: Apache-2.0
#include "packing.hpp"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_zero.h>

#include <algorithm>
#include <utility>

namespace tw {

void Packing::add(size_t bucket, const at::Tensor& value, const at::Tensor& place) {
  Waiting& waiting = waiting_[bucket];
  const c10::Stream stream = c10::impl::VirtualGuardImpl(value.device().type()).getStream(value.device());
  if (std::find(waiting.streams.begin(), waiting.streams.end(), stream) == waiting.streams.end()) waiting.streams.push_back(stream);
  if (value.is_same(place)) {
    waiting.in_place.push_back(place);
  } else {
    waiting.values.push_back(value);
    waiting.places.push_back(place);
  }
}

void Packing::pack(size_t bucket, double weight) {
  Waiting waiting = std::exchange(waiting_[bucket], {});
  if (waiting.places.empty() && waiting.zeros.empty() && (weight == 1 || waiting.in_place.empty())) return;
  const SideStream::Scope beside(side_);
  for (const c10::Stream& stream : waiting.streams) side_.follow(stream);
  auto& [values, places, in_place, zeros, streams] = waiting;
  if (weight == 0) {  // not multiplied: the gradient of a mean over no samples is NaN
    zeros.insert(zeros.end(), places.begin(), places.end());
    zeros.insert(zeros.end(), in_place.begin(), in_place.end());
  } else {
    if (!places.empty()) at::_foreach_copy_(places, values);
    for (const at::Tensor& value : values) side_.uses(value);
    places.insert(places.end(), in_place.begin(), in_place.end());
    if (weight != 1 && !places.empty()) at::_foreach_mul_(places, weight);
  }
  if (!zeros.empty()) at::_foreach_zero_(zeros);
}

}  // namespace tw
