// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/collectives.hpp>

#include "unit_values.hpp"

namespace tw {
namespace {

// A barrier precedes the first write to slices, and the first use after it.
class OneCopy final : public UnitValues {
 public:
  OneCopy(const Communicator& comm, const ParameterSlices& slices) : comm_(comm), slices_(slices) {
    meet();
    show();
  }

  void use(std::span<const size_t> /*units*/, const UseMoment& /*moment*/) override {
    if (shown_) return;
    meet();
    show();
  }
  void write(size_t unit, std::span<const size_t> /*used*/) override {
    slices_.watch_slices(unit, false);
    slices_.unit(unit).slices_written();
    if (!shown_) return;
    meet();
    hide();
  }
  void written() override {
    for (size_t unit = 0; unit < slices_.units(); ++unit) slices_.unit(unit).slices_written();
    if (shown_) hide();
  }
  void begin_pass() override {
    for (size_t unit = 0; unit < slices_.units(); ++unit) slices_.unit(unit).expect_unchanged();
  }
  void before_reduction() override {}
  void end_pass() override {}
  void restart(std::shared_ptr<OrderCheck> /*orders*/) override {
    meet();
    show();
  }

 private:
  void meet() {
    const Stopwatch watch;
    barrier(comm_);
    figures_.exposed += watch.elapsed();
  }
  void show() {
    shown_ = true;
    for (size_t unit = 0; unit < slices_.units(); ++unit) {
      slices_.unit(unit).fill(slices_.whole(unit));
      slices_.watch_slices(unit, true);
    }
  }
  void hide() {
    shown_ = false;
    for (size_t unit = 0; unit < slices_.units(); ++unit) slices_.unit(unit).release();
  }

  const Communicator& comm_;
  const ParameterSlices& slices_;
  bool shown_ = false;
};

}  // namespace

std::unique_ptr<UnitValues> one_copy_values(const Communicator& comm, const ParameterSlices& slices) {
  return std::make_unique<OneCopy>(comm, slices);
}

}  // namespace tw
