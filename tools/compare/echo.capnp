# SPDX-License-Identifier: BSD-3-Clause
# The call that capnp.cpp measures.
@0xa7d1f6a0c35e9b42;

interface Echo {
  call @0 (data :Data) -> (data :Data);
}
