#!/bin/sh
# Compile Horovod for the PyTorch of this image, or take the wheel of an earlier build: build_wheel.sh CACHE OUTPUT
#
# Build step of the Horovod image. Reads source.txt and torch.txt: the requirements of Horovod's source and of the
# PyTorch wheel, which has the headers that a CPU image leaves out. CACHE is a folder that outlives the build.
set -eu
cache=$1 output=$2

# A wheel is kept under a name that says what it was compiled from.
made_from() {
  cat "$0" build-tools.lock nccl-tools.lock source.txt
  echo "$HOROVOD_GPU_OPERATIONS"
  python -c 'import sys, torch; print(sys.version, torch.__version__)'
}
kept=$cache/horovod-$(made_from | sha256sum | cut -c -16)
if [ -e "$kept" ]; then
  cp -r "$kept" "$output"
  exit
fi

site_packages=$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
if [ ! -e "$site_packages/torch/include" ]; then
  pip download --dest "$cache" --only-binary :all: --no-deps --require-hashes -r torch.txt
  version=$(python -c 'import torch; print(torch.__version__.partition("+")[0])')
  python - "$cache/torch-$version-"*.whl "$site_packages" <<'PYTHON'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("torch/include/")])
PYTHON
fi

python_headers=$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')
apt-get update
# Newer compilers refuse the flatbuffers that Horovod carries.
apt-get install --yes --no-install-recommends g++-12 make $([ -e "$python_headers/Python.h" ] || echo python3-dev)
rm -rf /var/lib/apt/lists/*

pip download --dest . --no-binary :all: --no-build-isolation --no-deps --require-hashes -r source.txt
mkdir source
tar --extract --gzip --file horovod-*.tar.gz --directory source --strip-components 1
# PyTorch's headers need C++17.
for file in source/CMakeLists.txt source/horovod/torch/CMakeLists.txt; do
  sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' "$file"
  grep -q '^ *set(CMAKE_CXX_STANDARD 17)' "$file" || { echo "$file does not set the C++ standard" >&2; exit 1; }
done

# No ssh, no MPI: the pods of a job find each other through Horovod's own rendezvous server, and talk through gloo.
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1
if [ "$HOROVOD_GPU_OPERATIONS" = NCCL ]; then
  pip install --no-deps --require-hashes -r nccl-tools.lock
  # CUDA 13 knows no C++11 any more.
  sed -i 's/set(CMAKE_CUDA_STANDARD 11)/set(CMAKE_CUDA_STANDARD 17)/' source/horovod/common/ops/cuda/CMakeLists.txt
  # The packages of CUDA name their libraries and folders for use, not for linking.
  export CUDA_HOME="$site_packages/nvidia/cu13"
  ln -sfn lib "$CUDA_HOME/lib64"
  ln -sf libcudart.so.13 "$CUDA_HOME/lib/libcudart.so"
  ln -sf libnccl.so.2 "$site_packages/nvidia/nccl/lib/libnccl.so"
  export HOROVOD_CUDA_HOME="$CUDA_HOME" CUDACXX="$CUDA_HOME/bin/nvcc" CUDAHOSTCXX=g++-12
  export HOROVOD_NCCL_INCLUDE="$site_packages/nvidia/nccl/include" HOROVOD_NCCL_LIB="$site_packages/nvidia/nccl/lib"
  # Code for A100 and H100; newer GPUs translate the latter's when it is loaded.
  export HOROVOD_NCCL_LINK=SHARED HOROVOD_BUILD_CUDA_CC_LIST=80,90
elif [ -n "$HOROVOD_GPU_OPERATIONS" ]; then
  echo "HOROVOD_GPU_OPERATIONS is '$HOROVOD_GPU_OPERATIONS': NCCL is known, and nothing" >&2
  exit 1
fi
export CC=gcc-12 CXX=g++-12 LDFLAGS=-s MAKEFLAGS="-j$(nproc)"
pip wheel --no-deps --no-build-isolation --wheel-dir "$output" ./source
cp -r "$output" "$kept.unfinished"
mv "$kept.unfinished" "$kept"
