// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/mpi/communicator.hpp>

#include "order_check.hpp"
#include "parameter_slices.hpp"
#include "unit_order.hpp"

namespace tw {

class Reducer;

/// Where units have their values while operators take their parameters.
class UnitValues {
 public:
  struct Figures {
    Seconds exposed{0};
    int64_t payload_bytes = 0;
    int64_t buffer_bytes = 0;  ///< of memory that stays for values
    int64_t gatherings = 0;
    int64_t late = 0;  ///< of them, begun when the unit was taken
  };

  virtual ~UnitValues() = default;
  /// An operator is about to take parameters of `units`. All ranks alike.
  virtual void use(std::span<const size_t> units, const UseMoment& moment) = 0;
  /// An operator is about to write a slice of `unit`, and takes parameters of `used`.
  virtual void write(size_t unit, std::span<const size_t> used) = 0;
  /// All slices were written.
  virtual void written() = 0;
  /// A backward pass begins to accumulate gradients; this rank has all of its own; they are reduced.
  virtual void begin_pass() = 0;
  virtual void before_reduction() = 0;
  virtual void end_pass() = 0;
  const Figures& figures() const noexcept { return figures_; }

 protected:
  Figures figures_;
};

/// Each unit is gathered from the ranks' slices. Collective; all is borrowed. @param orders tells whether the ranks gather the same
/// @param reducer carries whether a rank found parameters changed @param give_up called where the ranks gather different units, on each, with
/// the error: releases those that wait elsewhere
std::unique_ptr<UnitValues> gathered_values(const Communicator& comm, std::shared_ptr<OrderCheck> orders, const ParameterSlices& slices,
                                            Reducer& reducer, const FullyShardedOptions& options,
                                            std::function<void(const std::string& why)> give_up);

/// All ranks read the node's one copy. Collective.
std::unique_ptr<UnitValues> one_copy_values(const Communicator& comm, const ParameterSlices& slices);

}  // namespace tw
