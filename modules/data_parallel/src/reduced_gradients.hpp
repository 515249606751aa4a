// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tw/tensor/named_tensor.hpp>
#include <utility>
#include <vector>

namespace tw {

/// Which gradients of some parameters are already reduced, rather than a rank's own. A gradient that others drop, replace or write no longer counts
/// as reduced.
class ReducedGradients {
 public:
  enum class ReducedBy : uint8_t { this_one, unknown };

  /// Gradients that exist now may have been reduced by somebody else. @param parameters borrowed
  explicit ReducedGradients(const std::vector<NamedTensor>& parameters) : parameters_(parameters), notes_(parameters.size()) {
    for (size_t id = 0; id < notes_.size(); ++id) note(id, ReducedBy::unknown);
  }

  /// Notes that the current gradient of a parameter is reduced.
  void note(size_t id, ReducedBy by) {
    const at::Tensor& gradient = gradient_of(id);
    notes_[id] = {by, Gradient(gradient.getIntrusivePtr()), gradient.defined() ? gradient._version() : 0};
  }
  void forget(size_t id) { notes_[id] = {}; }
  /// Who reduced the gradient, if it still counts as reduced. Forgets the note.
  std::optional<ReducedBy> take_reduced_by(size_t id) {
    const Note note = std::exchange(notes_[id], {});
    return is_valid(note, gradient_of(id)) ? std::optional(note.by) : std::nullopt;
  }
  /// Whether the gradient may have been reduced by somebody else.
  bool is_foreign(size_t id) const { return notes_[id].by == ReducedBy::unknown && is_valid(notes_[id], gradient_of(id)); }

 private:
  using Gradient = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Note {
    ReducedBy by = ReducedBy::this_one;
    Gradient gradient{at::Tensor().getIntrusivePtr()};
    int64_t version = 0;
  };
  static bool is_valid(const Note& note, const at::Tensor& now) {
    return now.defined() && !note.gradient.expired() && note.gradient._unsafe_get_target() == now.unsafeGetTensorImpl() &&
           now._version() == note.version;
  }
  const at::Tensor& gradient_of(size_t id) const { return parameters_[id].tensor.grad(); }

  const std::vector<NamedTensor>& parameters_;
  std::vector<Note> notes_;  // by parameter
};

}  // namespace tw
