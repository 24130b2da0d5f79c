# The image of Sluice: workers on a scheduler, and fleets whose programs call sluice.
# From a checkout: npm ci && npm run build && sluice image --tag sluice
# PACKAGES are further packages of Debian, such as python3.
FROM node:24-slim
ARG PACKAGES=""
RUN if [ -n "$PACKAGES" ]; then \
      apt-get update && apt-get install --yes --no-install-recommends $PACKAGES && \
      rm -rf /var/lib/apt/lists/*; \
    fi
COPY . /opt/sluice
# Any user of the container may keep models and engine packages there.
RUN ln -s /opt/sluice/bin/sluice.cjs /usr/local/bin/sluice && \
    mkdir --mode=1777 /var/cache/sluice
ENV SLUICE_HOME=/var/cache/sluice
WORKDIR /work
CMD ["sluice", "--help"]
